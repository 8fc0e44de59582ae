"""The page of a study: published beside measured, the figure, the trials, what was run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from mnemoscope.drawing.svg import inline_svg
from mnemoscope.replication.citing import cited_by_study
from mnemoscope.replication.study import NOT_COMPARED, Finished, Preset, Published, Row, Study
from mnemoscope.report import Section, render_document
from mnemoscope.report.markup import links_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section


def render_study(
    study: Study, preset: Preset, folder: Path, finished: Sequence[Finished], rows: Sequence[Row], command: str,
    missing: Sequence[str],
) -> str:  # fmt: skip
    """The page as text; `folder` holds the trials, each of which may have a page of its own."""
    compared = [(row.quantity, row.published, row.ours, row.verdict, row.remark) for row in rows]
    stated = [(one.quantity, str(one.value), _range(one), one.source) for one in study.published]
    measured = table_markup("Published and measured", ("Quantity", "Published", "Here", "Verdict", "Remark"), compared)
    sections = [Section("Published and measured", "What was claimed, and what came out here.", measured)]
    figure = study.figure(finished)
    if figure is not None:
        drawn = f'<figure class="drawn">{inline_svg(figure, "study", alt=study.caption)}</figure>'
        sections.append(Section("Figure", study.caption, drawn))
    pages = [one.trial for one in finished if (folder / one.trial.hash / "page.html").exists()]
    if pages:
        listed = links_markup([(f"{trial.name}, seed {trial.seed}", f"{trial.hash}/page.html") for trial in pages])
        sections.append(Section("Trials", "A page for each.", listed))
    sources = table_markup("What was published", ("Quantity", "Value", "Agrees with", "Source"), stated)
    sections.append(
        Section("What was published", "As the source has it, and which measured values agree with it.", sources)
    )
    cited = cited_by_study(study, trials=[one.trial for one in finished])
    return render_document(
        study.title,
        f"<p>{escape(study.question)}</p>",
        [*sections, citation_section(list(cited)), provenance_section(command, preset.summary + _not_run(missing))],
    )


def _not_run(missing: Sequence[str]) -> str:
    return f" Of this, not run: {'; '.join(missing)}." if missing else ""


def _range(published: Published) -> str:
    if published.agreeing is None:
        return NOT_COMPARED
    low, high = published.agreeing
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
