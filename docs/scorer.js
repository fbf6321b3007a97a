// How search orders what it finds: a heading that is the query first, then pages that explain,
// then examples and names of the API.
"use strict";
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score([page, title, anchor, about, score, file, kind]) {
    const heading = kind === "title" ? 10 : 0;
    const later = /^((memory\/)?api|memory\/help-desk|notebooks\/.*)$/.test(page) ? 10 : 0;
    return score + heading - later;
  },
};
