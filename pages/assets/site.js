"use strict";
// Tables sort, claims filter. Without this script all content is there, in its own order.

function sortable(table) {
  const body = table.tBodies[0], original = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const words = new Intl.Collator("en", { numeric: true });
  const compare = (a, b, column, sign) => {
    const [x, y] = [a, b].map((row) => row.cells[column]);
    if (x.dataset.sort === undefined) return sign * words.compare(x.textContent, y.textContent);
    if (x.dataset.sort === "" || y.dataset.sort === "") return (x.dataset.sort === "") - (y.dataset.sort === "");
    const [p, q] = [x, y].map((cell) => (cell.dataset.sort === "inf" ? Infinity : Number(cell.dataset.sort)));
    return p === q ? 0 : sign * (p < q ? -1 : 1);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next; // up, down, as it was
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      body.append(...(order ? [...original].sort((a, b) => compare(a, b, column, sign)) : original));
    });
  });
}

function filterable(form) {
  const rows = [...document.querySelectorAll(".claims tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const fields = ["verdict", "section", "text"].map((name) => form.elements[name]);
  const apply = () => {
    const [verdict, section, text] = fields.map((field) => field.value);
    const words = text.toLowerCase().split(/\s+/);
    rows.forEach((row, place) => {
      const fits = (!verdict || row.dataset.verdict === verdict) && (!section || row.dataset.section === section);
      row.hidden = !(fits && words.every((word) => texts[place].includes(word)));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("count").textContent = `${shown} of ${rows.length} claims`;
  };
  const keep = () => {
    apply();
    const set = fields.filter((field) => field.value).map((field) => [field.name, field.value]);
    history.replaceState(null, "", set.length ? `#${new URLSearchParams(set)}` : location.pathname + location.search);
  };
  const restore = () => {
    const hash = location.hash.slice(1), row = document.getElementById(hash);
    if (row && !row.hidden && rows.includes(row)) return; // a link to one claim leaves the filter as it is
    const state = new URLSearchParams(hash);
    for (const field of fields) field.value = state.get(field.name) || "";
    for (const field of fields) if (field.selectedIndex === -1) field.value = "";
    apply();
    if (row) row.scrollIntoView();
  };
  form.addEventListener("input", keep);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(keep));
  addEventListener("hashchange", restore);
  form.hidden = false;
  apply();
  restore();
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("#filter").forEach(filterable);
