"""What must hold of the whole source: references and citations have targets, no result is typed by hand."""

import re
from pathlib import Path

from paper.source import ADDRESS, FIGURE, ID, TABLE, blank, close, matches, read

REFERENCE = rf"(?<![\w.])@(?P<id>{ID})"
BRACKETS = rf"(?<![!^])\[(?!@{ID}\])[^\[\]]*(?P<reference>@{ID})[^\[\]]*\](?!\()"  # neither caption, note nor link
CITATION = r"(?<![\w.])@(?!(?:fig|tbl|sec):)(?P<key>\w(?:[\w:.#$%&+?<>~/-]*\w)?)"
ENTRY = r"^\s*@\w+\s*\{\s*(?P<key>[^,\s]+)\s*,"
# A number with decimals may stand where it is no result: in dates, attributes, citations, places in a text, names.
DATE = r"^date:.*$|\b\d{1,2}\.\d{1,2}\.\d{4}\b"
ATTRIBUTES = r'\{[#.][^{}]*\}|\{\{[^{}\s]*\}\}|\bcolumns="[^"]*"'
CITED = r"\[(?=[^\[\]]*@(?!fig:|tbl:|sec:))[^\[\]]*\]"
NUMBER = r"(?:[1-9]\d?|[A-Z]\b)(?:\.\d\d?)*(?!\d)"
NUMBERS = rf"{NUMBER}(?:(?:,\s|,?\s(?:and|or|to)\s|–)§?\s?{NUMBER})*"
PLACE = rf"(?:§+|\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Aa]ppendix|[Cc]hapter)s?)\s*{NUMBERS}"
DECIMAL = r"(?<![A-Za-z]-)(?<![^\W_])(?<!\.)(?:\d[\d,]*)?\.\d+(?:\s?%)?"
# What pdfLaTeX knows: Latin letters, usual punctuation, and what the template declares.
DECLARED = re.compile(r"\\DeclareUnicodeCharacter\{(\w+)\}")
LATIN = {chr(code) for code in (10, *range(32, 127), *range(0xA0, 0x17F))} - set("ĦħĸĿŀŉŦŧ") | set("–—‘’“”…†‡•€™")


def check(source):
    """Add to ``source.problems`` all that is wrong; values, tables, figures and labels must have been found before."""
    text = blank(ADDRESS, source.plain)
    _references(source, text)
    _citations(source, text)
    _decimals(source, text)
    _unused(source)
    _characters(source)


def _references(source, text):
    """Every reference has its target; every figure and table is spoken of in the text, not in a caption only."""
    captions = [match.span() for match in matches(f"{TABLE}|{FIGURE}", source.plain)]
    spoken_of = set()
    for match in matches(REFERENCE, text):
        id, place = match["id"], match.start()
        if id not in source.labels:
            source.problem(source.line(place), f"unknown reference @{id}{close(id, source.labels)}")
        if not any(start < place < end for start, end in captions):
            spoken_of.add(id)
    for id in source.labels.keys() - spoken_of:
        if not id.startswith("sec:"):
            source.problem(source.labels[id], f"@{id} is never referred to in the text; speak of it or leave it out")
    for match in matches(BRACKETS, source.plain):
        what = f"{match['reference']} shares its brackets; write it by itself, without brackets"
        source.problem(source.line(match.start("reference")), what)


def _citations(source, text):
    entries = {}
    for match in matches(ENTRY, bibliography := read(source.bibliography)):
        key, line = match["key"], 1 + bibliography.count("\n", 0, match.start("key"))
        if key in entries:
            source.problem(line, f"{key} is there already, in line {entries[key]}", source.bibliography)
        entries[key] = line
    for match in matches(CITATION, text):
        if (key := match["key"]) not in entries:
            what = f"citation @{key} is not in references.bib{close(key, entries)}"
            source.problem(source.line(match.start()), what)


def _decimals(source, text):
    for match in matches(DECIMAL, blank("|".join((DATE, ATTRIBUTES, CITED, PLACE)), text)):
        what = f"{match[0]} is typed by hand; let a notebook write it and refer to it by {{{{key}}}}"
        source.problem(source.line(match.start()), f"{what}, or set it as `code` if it is a version or a setting")


def _unused(source):
    for key in source.values.keys() - source.used:
        notebook = source.values[key]["notebook"]
        path = source.path.parent / f"values/{notebook}.json"
        line = 1 + read(path).partition(f'"{key}"')[0].count("\n")
        source.problem(line, f"value {key!r} is never used; use it, or drop it from {notebook}", path)


def _characters(source):
    """Every character is one that LaTeX can set; others would be missing in one format only."""
    declared = DECLARED.findall(read(Path(__file__).with_name("template.tex")))
    known = LATIN | {chr(int(code, 16)) for code in declared}
    places = [
        (path, number, line)
        for path, text in ((source.path, source.text), (source.bibliography, read(source.bibliography)))
        for number, line in enumerate(text.split("\n"), 1)
    ]
    places += [(source.path, source.line(start), new) for start, _, new in source.edits]
    for path, line, text in places:
        for character in set(text) - known:
            what = f"{character!r} (U+{ord(character):04X}) is not known to LaTeX; declare it in template.tex"
            source.problem(line, what, path)
