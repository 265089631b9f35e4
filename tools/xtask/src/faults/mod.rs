// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted faults: whether the tests see what they are there to see.
//!
//! `tests/faults` has a file for each area, each with plausible mistakes: a text of
//! the product and what stands in its place. The task puts one after the other into
//! a copy of the sources and runs the tests that should fail. What nobody sees is a
//! test that is missing.
//!
//! The copy and what is built of it stay below `target/faults`, so that a run
//! builds what has changed since the one before.

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

/// How many faults nobody may see.
const UNSEEN: usize = 1;

/// Tries every fault, or those whose name or area has one of these texts in it, and
/// writes the page where all were tried.
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

/// Puts a fault into the copy, lets the tests look, and takes it out again.
fn tried(tree: &Tree, bench: &Bench, fault: &Fault) -> Result<Outcome> {
    tree.plant(fault)?;
    let outcome = bench.look(tree, fault);
    tree.restore(fault)?;
    outcome
}
