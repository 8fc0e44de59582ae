"""The page of a study: published next to measured values, the figure, the trials and the provenance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from mnemoscope.drawing.svg import inline_svg
from mnemoscope.replication.cited_works import cited_by_study
from mnemoscope.replication.claims import Claim, Row
from mnemoscope.replication.study import Finished, Study
from mnemoscope.replication.trial_files import command_of, missing_trials, preset_of
from mnemoscope.replication.verdicts import Verdict
from mnemoscope.report.document import Section, render_document
from mnemoscope.report.markup import links_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section


def render_study(study: Study, preset: str, folder: Path, finished: Sequence[Finished], rows: Sequence[Row]) -> str:
    """Return the page as text, with links to the pages of the trials in `folder`."""
    rows_shown = [(row.quantity, row.published, row.ours, str(row.judgement), row.remark) for row in rows]
    claims_shown = [
        (
            claim.name,
            str(claim.value),
            _agreement(claim),
            "" if claim.agreement is None else claim.agreement.chosen,
            str(claim.source),
        )
        for claim in study.claims
    ]
    measured = table_markup(
        "Published and measured", ("Quantity", "Published", "Here", "Verdict", "Remark"), rows_shown
    )
    sections = [Section("Published and measured", "The published claims and what was measured here.", measured)]
    figure = study.figure(finished)
    if figure is not None:
        markup = f'<figure class="drawn">{inline_svg(figure, "study", alt=study.caption)}</figure>'
        sections.append(Section("Figure", study.caption, markup))
    pages = [each.trial for each in finished if (folder / each.trial.hash / "page.html").exists()]
    if pages:
        listed = links_markup([(f"{trial.name}, seed {trial.seed}", f"{trial.hash}/page.html") for trial in pages])
        sections.append(Section("Trials", "Each trial has a page.", listed))
    claims = table_markup(
        "What was published", ("Quantity", "Value", "Matches", "How the range was chosen", "Source"), claims_shown
    )
    sections.append(
        Section("What was published", "The claims of the source, and the measured values that match them.", claims)
    )
    cited = cited_by_study(study, trials=[each.trial for each in finished])
    missing = missing_trials(study, preset, finished)
    note = preset_of(study, preset).summary + (f" Not run: {'; '.join(missing)}." if missing else "")
    sections += [citation_section(list(cited)), provenance_section(command_of(study, preset, finished), note)]
    return render_document(study.title, f"<p>{escape(study.question)}</p>", sections)


def _agreement(claim: Claim) -> str:
    if claim.agreement is None:
        return Verdict.NOT_COMPARED
    compared = "the mean" if claim.agreement.of_mean else "each network"
    if claim.agreement.best:
        compared = f"the best of {claim.agreement.seeds}"
    return f"{compared}: {claim.agreement}"
