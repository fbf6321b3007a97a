// The page `live`: shows the run of live-first.js, runs others by the function `engine` in a worker,
// asks about the reader's own texts, which encoder.js turns into vectors, and moves a threshold.
"use strict";

function page(live) {
  const SYSTEMS = ["substrate", "ledger_lda"];
  const SPARE = 20; // classes that the reader may add, as in the engine
  const source = document.currentScript.src.replace("live.js", "live-data.js");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const one = (selector) => live.querySelector(selector);
  const [form, button, said, cells, query, asking, correcting, threshold] = (
    "form button output .cells .query .ask .correct .times".split(" ").map(one));
  const names = [...ocrrFirst.classes];
  const name = (label) => names[label];
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const breakable = (text) => String(text).replaceAll("_", "_<wbr>"); // on a narrow window
  const body = (rows) => rows.map((row) => `<tr><td>${row.map(breakable).join("<td>")}`).join("");
  let worker, loading, heard, encode, run;
  async function load() { // by a script: from a folder, a page cannot fetch
    said.value = "Loading 17 MB …";
    const script = Object.assign(document.createElement("script"), { src: source });
    script.onerror = () => (said.value = "live-data.js is missing: build the site again.");
    document.head.append(script);
    await new Promise((loaded) => (script.onload = loaded));
    worker = new Worker(URL.createObjectURL(new Blob([`(${engine})()`])));
    worker.onerror = ({ message }) => (said.value = `A newer browser is needed (${message}).`);
    worker.onmessage = take;
    worker.postMessage({ given: ocrr });
  }

  async function begin() {
    const { seed, held, policy, tests } = Object.fromEntries(new FormData(form));
    const key = `${seed}/${held}/${tests}`;
    await (loading ??= load());
    const scenario = ocrr.scenarios[key];
    const novel = scenario.novel;
    start({ ...scenario, tests: [novel, scenario.rows.length - scenario.n - novel] });
    names.length = ocrr.classes.length;
    list(".classes", names);
    ask({ scenario: key, coins: ocrr.coins[policy][seed] });
  }
  function start(given) {
    live.run = run = { points: [], items: [], id: Date.now(), shown: 0, taught: 0, ...given };
    [cells.innerHTML, one(".truth").textContent] = ["<i></i>".repeat(run.n), ""];
    for (const line of live.querySelectorAll("polyline")) line.removeAttribute("points");
    for (const cell of live.querySelectorAll(".now td")) cell.textContent = "";
    one(".reply").hidden = one(".end").hidden = true;
    said.value = "";
  }

  function ask(settings) {
    if (run.asked || (run.paused && run.points.length) || run.ended) return;
    run.asked = true;
    worker.postMessage({ id: run.id, ...settings });
  }

  function take({ data: { id, share = 1, point, leads, items = [], reply } }) {
    if (reply) return heard(reply);
    if (id !== run.id) return; // of a run that was left
    run.asked = false;
    run.items.push(...items);
    if (point) run.points.push(point);
    run.leads = leads;
    run.ended = run.items.length === run.n;
    one("progress").value = (share + run.items.length / run.n) / 2;
    if (!calm || run.ended) requestAnimationFrame(draw); // with reduced motion, at the end only
    ask();
  }
  const verdict = ({ answers, corrected, truth }, s) => (
    answers[s] === truth ? "right" : corrected[s] ? "corrected" : "wrong");

  function draw() {
    const last = run.points.at(-1);
    for (const svg of last ? live.querySelectorAll("[data-axis]") : []) {
      const { axis, lowest } = svg.dataset;
      const height = (value) => (150 * (1 - value)) / (1 - lowest);
      SYSTEMS.forEach((system, s) => {
        const points = run.points.map((p) => [(300 * p[s].step) / run.n, height(p[s][axis])]);
        svg.querySelector(`.${system}`).setAttribute("points", points.join(" "));
        one(`tr.${system} .${axis}`).textContent = percent(last[s][axis]);
        one(`tr.${system} .corrections`).textContent = last[s].corrections;
      });
    }
    for (; run.shown < run.items.length; run.shown++) {
      cells.children[run.shown].className = verdict(run.items[run.shown], 0);
    }
    query.max = run.shown;
    const state = run.ended ? "Done" : run.paused ? "Paused" : "Running";
    const next = { Done: "Run", Paused: "Go on", Running: "Pause" };
    button.textContent = run.left ? "Run" : next[state];
    if (!said.value.startsWith(state)) {
      const held = run.held.map(name).join(", ");
      said.value = `${state}: a stream of ${run.n} queries. Held out: ${held}.`;
    }
    conclude();
  }

  // Accuracies of the proposed system where a new class needs this lead.
  function at(lead) {
    return run.leads.map((own, kind) => {
      const right = own.filter((value) => (kind ? value <= lead : value > lead));
      return right.length / run.tests[kind];
    });
  }
  const both = ([novel, original]) => (2 * novel * original) / (novel + original || 1);
  function conclude() { // curve, point and last sentence of a run that has ended
    one(".end").hidden = !run.leads;
    if (!run.leads) return;
    const corners = [...run.leads[0], ...run.leads[1], -99].sort((a, b) => a - b);
    const shown = corners.filter((_, i) => i % 8 === 0 || i > corners.length - 8);
    const curve = shown.map((lead) => ({ lead, point: at(lead) }));
    const place = ([novel, original]) => [300 * novel, 150 * (1 - original)];
    one(".curve").setAttribute("points", curve.map(({ point }) => place(point)).join(" "));
    const last = run.points.at(-1);
    const put = (mark, point) => {
      const [x, y] = place(point);
      one(mark).setAttribute("transform", `translate(${x} ${y})`);
    };
    put(".mark.substrate", [last[0].novel, last[0].original]);
    const lead = threshold.value / 10;
    const here = at(lead);
    put(".mark.ledger_lda", here);
    const size = Math.exp(Math.abs(lead));
    const times = size < 10 ? size.toFixed(1) : Math.round(size).toLocaleString("en");
    const likely = `more than ${lead < 0 ? `1/${times}` : `${times} times`} as likely as`;
    one(".told").value = `A new class is answered if it is ${lead ? likely : "likelier than"} the `
      + `best known one: held-out ${percent(here[0])}, known ${percent(here[1])}, harmonic mean `
      + `${percent(both(here))}.`;
    const best = curve.reduce((a, b) => (both(b.point) > both(a.point) ? b : a));
    const gap = both([last[1].novel, last[1].original]) - both([last[0].novel, last[0].original]);
    const taught = run.taught ? `, ${run.taught} of your corrections among them` : "";
    one(".last").textContent = `The proposed system, after ${last[1].corrections} corrections, has `
      + `a harmonic mean ${Math.abs(100 * gap).toFixed(1)} points ${gap < 0 ? "lower" : "higher"} `
      + `than the substrate after ${last[0].corrections}${taught}. The best threshold, chosen on `
      + `these very queries, would make it ${percent(both(best.point))}.`;
  }

  // Where an entry comes from; in the first run places in the stream are given.
  function origin(row) {
    const place = run.first ? row : run.rows.indexOf(row) + 1;
    if (!run.first && row >= ocrr.labels.length) return "your correction";
    return place ? `correction of query ${place}` : "known from the start";
  }
  const neighbours = ({ near, votes }) => near.map(([cosine, label, row], i) => (
    [name(label), cosine.toFixed(3), i < votes ? "yes" : "too far", origin(row)]));

  // A query of the stream: its answers, and which neighbours voted.
  function show(place) {
    const item = run.items[place];
    if (!item) return;
    const answers = SYSTEMS.map((s, i) => [s, name(item.answers[i]), verdict(item, i)]);
    [one(".answers").innerHTML, one(".near").innerHTML] = [answers, neighbours(item)].map(body);
    one(".truth").textContent = `Query ${place + 1}, of class ${name(item.truth)}`;
    cells.querySelector(".chosen")?.classList.remove("chosen");
    cells.children[place].classList.add("chosen");
    query.value = place + 1;
  }

  // What both systems say to a text of the reader's own, once a run has ended or pauses.
  const tell = (message) => new Promise((done) => {
    heard = done;
    worker.postMessage(message);
  });
  const note = (text) => (one(".note").value = text);
  let asked; // the text of the last answer, which a correction is about
  async function request(text = asking.elements.text.value.trim()) {
    if (!text) return;
    if (!encode) note("Loading the encoder, 50 MB …");
    encode ??= await encoder();
    const vector = [...await encode(text)];
    if (run.first) await begin(); // its systems are only here once it is repeated
    const ready = () => run.points.length && (run.ended || run.paused);
    if (!ready()) note("The systems answer when the run ends, or when you pause it …");
    while (!ready()) await new Promise((go) => setTimeout(go, 50));
    const reply = await tell({ vector });
    Object.assign(live, { reply, vector });
    asked = text;
    const [vote, likely] = reply.answers;
    const count = reply.near.slice(0, reply.votes).filter(([, label]) => label === vote).length;
    const sure = reply.top.filter(([, p]) => p >= 0.0005)
      .map(([label, p]) => `${name(label)} ${percent(p)}`).join(", ");
    const answers = [
      [SYSTEMS[0], `<b>${name(vote)}</b>`, `${count} of ${reply.votes} votes`],
      [SYSTEMS[1], `<b>${name(likely)}</b>`, sure],
    ];
    one(".reply .say").innerHTML = body(answers);
    one(".reply .who").innerHTML = body(neighbours(reply));
    one(".reply").hidden = false;
    note(`“${text}”`);
  }
  async function learn() {
    const label = correcting.elements.label.value.trim().replace(/[<>&"]/g, "");
    if (!label) return;
    const fresh = !names.includes(label);
    if (fresh) {
      const full = names.length === ocrr.classes.length + SPARE;
      if (full) throw Error(`${SPARE} new classes are the most`);
      names.push(label);
      list(".classes", names);
    }
    const step = run.points.at(-1)[0].step;
    const { point, leads } = await tell({ label: names.indexOf(label), step });
    run.points[run.points.length - 1] = point;
    if (run.leads) run.leads = leads;
    run.taught += 1;
    correcting.reset();
    draw();
    await request(asked);
    note(`Learnt as ${fresh ? "the new class " : ""}${label}, and asked again. `
      + "Ask it in other words, too.");
  }
  const list = (selector, values) => {
    const option = (value) => Object.assign(document.createElement("option"), { value });
    one(selector).replaceChildren(...values.map(option));
  };
  const guarded = (action) => async (event) => {
    event.preventDefault();
    const buttons = live.querySelectorAll(".ask button, .correct button");
    if (buttons[0].disabled) return;
    for (const each of buttons) each.disabled = true;
    try { await action(); } catch ({ message }) { note(`No answer: ${message}.`); }
    for (const each of buttons) each.disabled = false;
  };

  form.onsubmit = (event) => {
    event.preventDefault();
    if (run.ended || run.left) return begin();
    run.paused = !run.paused;
    draw();
    ask();
  };
  form.onchange = () => { run.left = true; button.textContent = "Run"; };
  query.oninput = () => show(query.value - 1);
  cells.onclick = (event) => show([...cells.children].indexOf(event.target));
  asking.onsubmit = guarded(request);
  correcting.onsubmit = guarded(learn);
  threshold.oninput = conclude;
  list(".requests", ocrrFirst.requests);
  list(".classes", names);
  one(".typed").hidden = !ocrrFirst.sentences;
  one(".drawn").hidden = ocrrFirst.sentences;
  start({ ...ocrrFirst, first: true, ended: true });
  draw();
}
page(document.getElementById("live"));
