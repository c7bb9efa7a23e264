// The whole view is in the address: #/view/path?name=value.

export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...rest] = path.split("/").map(decodeURIComponent);
  return { view, rest: rest.join("/"), params: new URLSearchParams(query) };
}

export function address(view, rest = "", params = {}) {
  const path = [view, ...rest.split("/").filter(Boolean)].map(encodeURIComponent).join("/");
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

// Change some parameters of the present address, without going anywhere.
export function remember(patch) {
  const { view, rest, params } = read();
  for (const [name, value] of Object.entries(patch)) {
    if (value === "" || value === null || value === undefined) params.delete(name);
    else params.set(name, value);
  }
  history.replaceState(null, "", address(view, rest, Object.fromEntries(params)));
}
