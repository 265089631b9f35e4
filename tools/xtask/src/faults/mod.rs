// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted faults: checks that the tests detect mistakes.
//!
//! `tests/faults` has a file for each area with plausible mistakes, each a text of the product and
//! its replacement. The task puts one after the other into a copy of the sources, and runs the
//! tests that should fail. A fault that no test detects shows a missing test.
//!
//! The copy and its build remain below `target/faults`, so that a run rebuilds only what changed
//! since the previous one.

mod page;
mod read;
mod tree;
mod trial;

use anyhow::{Result, bail};
use read::Fault;
use std::path::Path;
use std::time::Instant;
use tree::Tree;
use trial::{Bench, Outcome};

/// How many undetected faults are tolerated.
const UNSEEN: usize = 1;

/// Tries every fault, or those whose name or area contains one of these texts. Writes the page if
/// all were tried.
#[allow(clippy::print_stdout, reason = "what takes minutes is printed")]
pub fn run(root: &Path, only: &[String]) -> Result<()> {
    let all = read::all(root)?;
    let asked = |fault: &Fault, text: &String| fault.name.contains(text) || fault.area == *text;
    if let Some(text) = only
        .iter()
        .find(|text| !all.iter().any(|fault| asked(fault, text)))
    {
        bail!("no fault or area in {} is `{text}`", read::FOLDER);
    }
    let faults: Vec<Fault> = all
        .into_iter()
        .filter(|fault| only.is_empty() || only.iter().any(|text| asked(fault, text)))
        .collect();
    tree::clean(root)?;
    let tree = Tree::of(root)?;
    println!("the tests of {} faults, without a fault", faults.len());
    let bench = Bench::of(&tree, &faults)?;
    let mut outcomes = Vec::with_capacity(faults.len());
    for (number, fault) in (1..).zip(&faults) {
        let start = Instant::now();
        let outcome = tried(&tree, &bench, fault)?;
        println!(
            "{number:3} of {}  {:6.1} s  {}: {outcome}",
            faults.len(),
            start.elapsed().as_secs_f64(),
            fault.name
        );
        outcomes.push(outcome);
    }
    println!("\n{}", page::table(&faults, &outcomes));
    if only.is_empty() {
        page::write(root, &faults, &outcomes)?;
    }
    let unseen = outcomes.iter().filter(|outcome| !outcome.is_seen()).count();
    if unseen > UNSEEN {
        bail!("{unseen} faults are seen by nobody, where {UNSEEN} may be");
    }
    Ok(())
}

/// Puts a fault into the copy, runs the tests, and removes the fault.
fn tried(tree: &Tree, bench: &Bench, fault: &Fault) -> Result<Outcome> {
    tree.plant(fault)?;
    let outcome = bench.look(tree, fault);
    tree.restore(fault)?;
    outcome
}
