"""Level 2: real data. The data directory, its sources with checksums, formats, memory-mapped rows."""

from headstart.data.directory import Dataset, data_directory, datasets, find_dataset, open_dataset, rows_folder
from headstart.data.fetch import check, fill, found_files
from headstart.data.numerals import numerals
from headstart.data.sources import SOURCES, Package, Source, source

__all__ = [
    "SOURCES",
    "Dataset",
    "Package",
    "Source",
    "check",
    "data_directory",
    "datasets",
    "fill",
    "find_dataset",
    "found_files",
    "numerals",
    "open_dataset",
    "rows_folder",
    "source",
]
