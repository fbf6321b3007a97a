// The slider of the first page: both accuracies of some systems after so many corrections.
"use strict";
for (const box of document.querySelectorAll(".slider")) {
  const { grid, systems } = JSON.parse(box.querySelector("script").textContent);
  const input = box.querySelector("input");
  const show = () => {
    box.querySelector("output").value = grid[input.value];
    for (const row of box.querySelectorAll("tbody tr")) {
      const [name, ...bars] = row.cells;
      bars.forEach((bar, axis) => {
        const share = systems[name.textContent][axis][input.value];
        bar.style.setProperty("--share", share);
        bar.textContent = share.toFixed(2);
      });
    }
  };
  input.addEventListener("input", show);
  show();
  box.hidden = false;
}
