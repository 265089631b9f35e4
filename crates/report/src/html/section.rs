// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One experiment: expectations and results, tables, plots, set-up.

use super::details;
use super::table::{Cell, table};
use crate::format::{self, promise, quantity};
use crate::markup::{escaped, identifier};
use crate::{Findings, rows, svg, words};
use std::fmt::Write as _;
use weirgate_measure::{JudgedExpectation, Judgement};

/// One experiment of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) kept: usize,
    pub(super) expected: usize,
    body: String,
}

impl Section {
    /// Writes one experiment.
    #[must_use]
    pub fn new(findings: &Findings) -> Self {
        let experiment = findings.experiment;
        let (kept, expected) = findings.score();
        let mut section = Self {
            id: identifier(&experiment.name),
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            kept,
            expected,
            body: String::new(),
        };
        section.write(findings);
        section
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// Returns the numbers of kept and of all expectations, as markup.
    pub(super) fn badge(&self) -> String {
        let class = if self.kept == self.expected {
            "good"
        } else {
            "bad"
        };
        match self.expected {
            0 => "<span class=\"badge\">none</span>".to_owned(),
            all => format!(
                "<span class=\"badge {class}\">{} of {all} kept</span>",
                self.kept
            ),
        }
    }

    fn write(&mut self, findings: &Findings) {
        let experiment = findings.experiment;
        let id = self.id.clone();
        let badge = self.badge();
        let out = &mut self.body;
        let _ = writeln!(
            out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}: {} {badge}\
             </h2>",
            escaped(&experiment.name),
            escaped(&experiment.title)
        );
        for paragraph in experiment
            .about
            .split("\n\n")
            .filter(|text| !text.trim().is_empty())
        {
            let _ = writeln!(out, "<p>{}</p>", escaped(paragraph.trim()));
        }
        let covers = match experiment.covers.as_slice() {
            [] => String::new(),
            names => format!(" Also shows {}.", names.join(", ")),
        };
        let _ = writeln!(
            out,
            "<p class=\"soft\">Source: {}.{}</p>",
            escaped(experiment.source.trim_end_matches('.')),
            escaped(&covers)
        );
        happened(out, findings);
        if let Some(drawing) = svg::comparison(findings) {
            figure(out, &id, &drawing);
        }
        figures_table(out, findings);
        let plots = [
            svg::latency(findings),
            svg::throughput(findings),
            svg::queues(findings),
            svg::outstanding(findings),
            svg::smoothed(findings),
            svg::distribution(findings),
            svg::histogram(findings),
            svg::time_sequence(findings),
        ];
        for drawing in plots.iter().flatten() {
            figure(out, &id, drawing);
        }
        expectations(out, findings);
        details::write(out, findings);
        *out += "</section>\n";
    }
}

fn figure(out: &mut String, id: &str, drawing: &svg::Drawing) {
    let _ = writeln!(
        out,
        "<figure>\n<figcaption>{}</figcaption>\n{}</figure>",
        escaped(&drawing.title),
        drawing.inline(&format!("{id}-{}", drawing.name))
    );
}

/// Writes sentences that compare the first arm with `weirgate`.
fn happened(out: &mut String, findings: &Findings) {
    let arm = |name: &str| findings.runs.iter().find(|run| run.figures.arm == name);
    let (Some(before), Some(after)) = (arm("modem-only"), arm("weirgate")) else {
        return;
    };
    let sentences = words::sentences(findings.experiment, before.figures, after.figures);
    if !sentences.is_empty() {
        let _ = writeln!(
            out,
            "<h3>What happened</h3>\n<p>{}</p>",
            escaped(&sentences.join(" "))
        );
    }
}

fn expectations(out: &mut String, findings: &Findings) {
    let (kept, all) = findings.score();
    if all == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "<h3>Expectations</h3>\n<p>{}</p>",
        words::score(kept, all)
    );
    let rows: Vec<Vec<Cell>> = findings.verdicts.iter().map(verdict_row).collect();
    let columns = [
        "figure",
        "arm",
        "expected",
        "measured",
        "departs by",
        "",
        "source",
    ];
    table(out, "What was expected", &columns, &rows);
}

fn verdict_row(verdict: &JudgedExpectation) -> Vec<Cell> {
    let expectation = &verdict.expectation;
    let measured = verdict
        .measured
        .map(|measured| quantity(measured, &expectation.metric));
    let source = match &verdict.judgement {
        Judgement::NoData(reason) => format!("{}; {reason}", expectation.source),
        Judgement::Kept | Judgement::Broken => expectation.source.clone(),
    };
    let word = format::judgement(verdict);
    let class = match word {
        "kept" => "good",
        "explained" => "fair",
        _ => "bad",
    };
    vec![
        Cell::metric(&expectation.metric),
        Cell::text(expectation.arm.clone()),
        Cell::text(promise(expectation, verdict.promise)),
        Cell::Number(measured.unwrap_or_else(|| "none".to_owned())),
        Cell::Number(format::deviation(verdict)),
        Cell::Markup(format!("<span class=\"badge {class}\">{word}</span>")),
        Cell::text(source),
    ]
}

fn figures_table(out: &mut String, findings: &Findings) {
    let figures = rows::table(findings);
    let mut lines = Vec::new();
    for block in &figures.blocks {
        if !block.title.is_empty() {
            lines.push(vec![Cell::text(block.title.clone())]);
        }
        for row in &block.rows {
            let label = match row.unit {
                "" => row.label.clone(),
                unit => format!("{}, {unit}", row.label),
            };
            let mut cells = vec![Cell::text(label)];
            let value =
                |cell: Option<String>| Cell::Number(cell.unwrap_or_else(|| "\u{2013}".to_owned()));
            cells.extend(row.cells().map(value));
            lines.push(cells);
        }
    }
    if lines.is_empty() {
        return;
    }
    let mut columns = vec!["figure"];
    columns.extend(figures.columns.iter().map(String::as_str));
    *out += "<h3>Figures</h3>\n";
    table(out, "Chosen figures", &columns, &lines);
    let runs = findings.runs.iter().map(|run| run.figures);
    for text in [findings.repeated(), words::overloaded(runs)]
        .into_iter()
        .flatten()
        .chain(words::calls(findings))
    {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escaped(&text));
    }
}
