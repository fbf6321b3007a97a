// Tables of results: the button of a column sorts its rows; a form before a table chooses among them.
"use strict";
(() => {
  const text = (row, column) => row.cells[column].textContent.trim();

  // Compare two rows by a column; missing numbers come last, whatever the direction.
  const COMPARE = {
    place: (a, b, column, sign) => sign * (a.place - b.place),
    text: (a, b, column, sign) => sign * text(a, column).localeCompare(text(b, column)),
    number: (a, b, column, sign) => {
      const x = parseFloat(text(a, column));
      const y = parseFloat(text(b, column));
      if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
      return sign * (x - y);
    },
  };

  function sortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    [...body.rows].forEach((row, place) => { row.place = place; });
    heads.forEach((head, column) => {
      const { order } = head.dataset;
      const compare = COMPARE[order] || COMPARE.number;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = order === "high" ? "descending" : "ascending";
        const other = order === "high" ? "ascending" : "descending";
        const direction = head.getAttribute("aria-sort") === first ? other : first;
        const sign = direction === "ascending" ? 1 : -1;
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", direction);
        body.append(...[...body.rows].sort((a, b) => compare(a, b, column, sign)));
      });
    });
  }

  function choosable(form, table) {
    const rows = [...table.tBodies[0].rows];
    const said = rows.map((row) => row.textContent.toLowerCase());
    const choose = () => {
      const verdict = form.elements.verdict.value;
      const words = form.elements.words.value.toLowerCase().split(/\s+/);
      rows.forEach((row, place) => {
        const fits = !verdict || row.dataset.verdict === verdict;
        row.hidden = !fits || !words.every((word) => said[place].includes(word));
      });
      const shown = rows.filter((row) => !row.hidden).length;
      form.querySelector("output").value = `${shown} of ${rows.length} claims`;
    };
    form.addEventListener("input", choose);
    form.addEventListener("submit", (event) => event.preventDefault());
    choose();  // a browser may have kept what was chosen before
  }

  for (const table of document.querySelectorAll("table.sortable")) sortable(table);
  const form = document.querySelector("form.choice");
  if (form) choosable(form, document.querySelector("form.choice ~ .box table"));
})();
