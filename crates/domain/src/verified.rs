// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A verification on one page: a line for each service with measurements and promises, followed
//! by the broken promises with their possible causes.

use crate::{Comparison, Fate, Found, PortId, Quantity, Service, Verification};
use std::fmt;

/// The quantities, in the order of the columns.
const COLUMNS: [Quantity; 4] = [
    Quantity::Rate,
    Quantity::Delay,
    Quantity::Jitter,
    Quantity::Loss,
];

impl fmt::Display for Verification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.services.is_empty() {
            let sound = self
                .routers
                .values()
                .filter(|one| **one == Found::AsPlanned);
            let (all, sound) = (self.routers.len(), sound.count());
            writeln!(
                f,
                "Asked {}. Of {all} routers {sound} are as the domain says.",
                self.when
            )?;
            return self.cause(f);
        }
        let judged = self.services.iter().filter_map(|fate| match fate {
            Fate::Judged(comparisons) => Some(comparisons),
            Fate::NotMeasured(_) => None,
        });
        let (kept, broken): (Vec<&Comparison>, _) = judged.flatten().partition(|one| one.kept);
        let all = kept.len() + broken.len();
        write!(
            f,
            "Measured {}. Of {all} promises {} are kept",
            self.when,
            kept.len()
        )?;
        if broken.is_empty() {
            writeln!(f, ".")?;
        } else {
            writeln!(f, ", {} BROKEN.", broken.len())?;
        }
        self.table(f)?;
        self.broken(f)?;
        self.cause(f)?;
        if self.sound() {
            writeln!(f, "\nEverything that was promised is kept.")?;
        }
        Ok(())
    }
}

impl Verification<'_> {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![
            ["customer", "service", "to", "class"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows[0].extend(COLUMNS.map(|one| format!("{one}, {}", one.unit())));
        rows[0].push("measured of promised".to_owned());
        for name in self.domain.customers.keys() {
            let all = self.domain.services.iter().zip(&self.services);
            let mut customer = name.as_str();
            for (service, fate) in all.filter(|(service, _)| service.from == *name) {
                let mut row = [customer, &service.name, &service.to, &service.class]
                    .map(str::to_owned)
                    .to_vec();
                row.extend(COLUMNS.map(|quantity| cell(fate, quantity)));
                row.push(self.state(service, fate));
                rows.push(row);
                customer = "";
            }
        }
        let wide = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..rows[0].len()).map(wide).collect();
        writeln!(f)?;
        for row in &rows {
            let cells = row.iter().zip(&widths);
            let cells: Vec<String> = cells.map(|(cell, wide)| format!("{cell:<wide$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }

    /// Describes the state in one word, and since when: for a broken service since the first of
    /// its broken promises, for a kept one since all are kept.
    fn state(&self, service: &Service, fate: &Fate) -> String {
        let comparisons = match fate {
            Fate::NotMeasured(_) => return "not measured".to_owned(),
            Fate::Judged(comparisons) => comparisons,
        };
        let since = |kept: bool| {
            let own = comparisons.iter().filter(move |one| one.kept == kept);
            own.map(|one| self.since(service, one.quantity))
        };
        if fate.broken() {
            format!("BROKEN since {}", since(false).min().unwrap_or(&self.when))
        } else {
            format!("kept since {}", since(true).max().unwrap_or(&self.when))
        }
    }

    fn since(&self, service: &Service, quantity: Quantity) -> &str {
        let key = (service.name.clone(), quantity);
        self.since
            .get(&key)
            .map_or(self.when.as_str(), |state| state.when.as_str())
    }

    /// Writes a sentence about each broken or unmeasured service.
    fn broken(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sentences = Vec::new();
        for (service, fate) in self.domain.services.iter().zip(&self.services) {
            let (name, from) = (&service.name, &service.from);
            match fate {
                Fate::NotMeasured(why) => {
                    sentences.push(format!("{name} of {from} was not measured: {why}"));
                }
                Fate::Judged(comparisons) => {
                    let each = comparisons.iter().filter(|one| !one.kept).map(|one| {
                        let unit = one.quantity.unit();
                        format!(
                            "a {} of {} {unit} was promised, {} {unit} measured, BROKEN since {}",
                            one.quantity,
                            stated(one.promised),
                            found(one),
                            self.since(service, one.quantity)
                        )
                    });
                    let each: Vec<String> = each.collect();
                    if !each.is_empty() {
                        sentences.push(format!("{name} of {from}: {}", each.join("; ")));
                    }
                }
            }
        }
        if !sentences.is_empty() {
            writeln!(f)?;
        }
        write_some(f, "", &sentences, "marked above")
    }

    fn cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, found) in &self.routers {
            match found {
                Found::AsPlanned => {}
                Found::Differs(steps) => {
                    writeln!(
                        f,
                        "\nThe router `{name}` is not as the domain says. To be changed there:"
                    )?;
                    write_some(f, "  ", steps, "which `weirgate domain plan` has")?;
                }
                Found::Unknown(why) => {
                    writeln!(f, "\nThe router `{name}` could not be asked: {why}")?;
                }
            }
        }
        if !self.services.iter().any(Fate::broken) {
            return Ok(());
        }
        let suspects = self.suspects();
        let of = |port: &PortId| self.check.ports.get(port.0);
        let names: Vec<String> = suspects
            .iter()
            .filter_map(of)
            .map(|port| format!("{} of {}", port.device, port.router))
            .collect();
        let differing: Vec<&str> = suspects
            .iter()
            .filter_map(of)
            .map(|port| port.router.as_str())
            .filter(|name| {
                let found = self.routers.get(*name);
                found.is_some_and(|found| *found != Found::AsPlanned)
            })
            .collect();
        match (differing.first(), names.is_empty()) {
            (Some(first), _) => writeln!(
                f,
                "\nWhat is broken passes the router `{first}`, which is the likely cause."
            ),
            (None, false) => writeln!(
                f,
                "\n{}What they pass and no kept service of their class does: {}.",
                if self.routers.is_empty() {
                    ""
                } else {
                    "Every router of the broken services has its policy. "
                },
                names.join(", ")
            ),
            (None, true) => writeln!(
                f,
                "\nEvery port that a broken service passes carries kept services of its class as \
                 well: look at the customers' own machines and lines."
            ),
        }
    }
}

/// Writes lines of one kind. If there are many, it writes the first ones, the number of the
/// others, and where they are.
fn write_some(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    lines: &[String],
    elsewhere: &str,
) -> fmt::Result {
    const MOST: usize = 6;
    for line in lines.iter().take(MOST) {
        writeln!(f, "{indent}{line}")?;
    }
    match lines.len().checked_sub(MOST) {
        Some(more @ 1..) => writeln!(f, "{indent}... and {more} more, {elsewhere}"),
        _ => Ok(()),
    }
}

/// Formats measurement and promise; broken ones are marked.
fn cell(fate: &Fate, quantity: Quantity) -> String {
    let Fate::Judged(comparisons) = fate else {
        return "-".to_owned();
    };
    let mut own = comparisons.iter();
    let one = own.find(|one| one.quantity == quantity);
    one.map_or_else(
        || "-".to_owned(),
        |one| {
            let mark = if one.kept { "" } else { "!" };
            format!("{} of {}{mark}", found(one), stated(one.promised))
        },
    )
}

/// Formats a promise as it was written.
fn stated(value: f64) -> String {
    let digits = format!("{value:.4}");
    let digits = digits.trim_end_matches('0');
    digits.trim_end_matches('.').to_owned()
}

/// Formats a measurement: rates with one decimal place, others with two.
fn found(comparison: &Comparison) -> String {
    match comparison.quantity {
        Quantity::Rate => format!("{:.1}", comparison.measured),
        _ => format!("{:.2}", comparison.measured),
    }
}
