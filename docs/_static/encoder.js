// Sentences as vectors in the reader's browser: all-MiniLM-L6-v2, its weights rounded to int8.
// encoder-data.js, made by paper/assets.py, has model, vocabulary and onnxruntime-web.
"use strict";

// A function from a text to token ids, as BERT's tokeniser for lower case gives them.
function wordpiece(vocabulary, longest = 256) {
  const ids = new Map(vocabulary.split("\n").map((piece, id) => [piece, id]));
  const special = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
  const ideographs = /[\u4E00-\u9FFF\u3400-\u4DBF\u{20000}-\u{2A6DF}\u{2A700}-\u{2B81F}\u{2B820}-\u{2CEAF}\uF900-\uFAFF\u{2F800}-\u{2FA1F}]/gu;
  const words = (text) => [...text.replace(/[^\P{C}\t\n\r]|\uFFFD/gu, "")]
    .join("").replace(ideographs, " $& ").normalize("NFD").replace(/\p{Mn}/gu, "")
    .replace(/./gsu, (letter) => letter.toLowerCase()) // one by one: a last sigma is no other one
    .replace(/[!-/:-@[-`{-~]|\p{P}/gu, " $& ").split(/\p{White_Space}+/u).filter(Boolean);
  function pieces(word) { // the longest ones first
    const letters = [...word];
    const found = [];
    for (let start = 0, end; start < letters.length && letters.length <= 100; start = end) {
      const piece = () => (start ? "##" : "") + letters.slice(start, end).join("");
      for (end = letters.length; end > start && !ids.has(piece()); end--);
      if (end === start) return [ids.get("[UNK]")];
      found.push(ids.get(piece()));
    }
    return found.length ? found : [ids.get("[UNK]")];
  }
  return (text) => {
    const parts = text.split(special);
    const inner = parts.flatMap((part, i) => (i % 2 ? [ids.get(part)] : words(part).flatMap(pieces)));
    return [ids.get("[CLS]"), ...inner.slice(0, longest - 2), ids.get("[SEP]")];
  };
}

// A function from a text to its unit vector, loaded from the folder of this script.
const encoder = (() => {
  const source = document.currentScript.src.replace("encoder.js", "encoder-data.js");
  const bytes = (base64) => Uint8Array.fromBase64(base64);
  const address = (code) => URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const script = (src) => new Promise((resolve, reject) => { // from a folder, a page cannot fetch
    const fail = () => reject(Error("encoder-data.js is missing: build the site again"));
    document.head.append(Object.assign(document.createElement("script"), { src, onload: resolve, onerror: fail }));
  });
  return async function load() {
    await script(source);
    const { vocabulary, model, runtime, loader, wasm } = window.ocrrEncoder;
    delete window.ocrrEncoder;
    await script(address(runtime));
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = bytes(wasm).buffer;
    ort.env.wasm.wasmPaths = { mjs: address(loader) };
    const session = await ort.InferenceSession.create(bytes(model), { executionProviders: ["wasm"] });
    const tokens = wordpiece(vocabulary);
    async function encode(text) {
      const ids = tokens(text);
      const whole = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, ids.length]);
      const input_ids = whole(ids);
      const attention_mask = whole(ids.map(() => 1));
      const token_type_ids = whole(ids.map(() => 0));
      const found = await session.run({ input_ids, attention_mask, token_type_ids });
      const states = found.last_hidden_state.data; // (tokens, d): their mean has the direction of the sum
      const sum = new Float64Array(states.length / ids.length);
      states.forEach((value, at) => (sum[at % sum.length] += value));
      const length = Math.hypot(...sum);
      return sum.map((value) => value / length);
    }
    return Object.assign(encode, { tokens });
  };
})();
