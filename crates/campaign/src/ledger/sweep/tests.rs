// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of shards without machines: the figures of a run are derived from its name.

use super::*;
use crate::ledger::{How, Ledger};
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;
use weirgate_ledger::{Digest, Machine};

const TEXT: &str = r#"
version = 1
title = "A gate beside a plain line"

[topology.line]
up = { rate = "512kbit", buffer = "60kB" }
down = { rate = "2mbit", buffer = "60kB" }

[[phase]]
name = "only"
end = "10s"

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"

[[arm]]
name = "plain"

[[arm]]
name = "other"
"#;

/// A folder with experiments of `seeds` seeds, named `a`, `b` and so on.
struct Fixture {
    folder: TempDir,
    experiments: Vec<Swept>,
}

impl Fixture {
    fn new(seeds: &[u16]) -> Self {
        let folder = TempDir::new().unwrap();
        let ledger = Ledger {
            experiments: folder.path().to_owned(),
            results: folder.path().join("results"),
        };
        let experiment = |(name, seeds): (&str, &u16)| {
            let text = format!("{TEXT}\n").replacen(
                "version = 1",
                &format!("version = 1\nname = \"{name}\"\nseeds = {seeds}"),
                1,
            );
            fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
            let subject = ledger.subject(name);
            Swept {
                subject: subject.unwrap_or_else(|failure| panic!("{}", failure.text())),
                made_with: made_with("guest"),
            }
        };
        Self {
            experiments: ["a", "b", "c"]
                .into_iter()
                .zip(seeds)
                .map(experiment)
                .collect(),
            folder,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sweep(&self) -> Sweep<'_> {
        Sweep::new(&self.experiments)
    }

    /// Writes a shard into a folder.
    fn shard(&self, shard: &str, folder: &str) -> PathBuf {
        let folder = self.at(folder);
        for planned in self.sweep().share(shard.parse().unwrap()) {
            runs::write(&folder, &run(&planned)).unwrap();
        }
        folder
    }

    /// Returns the message with which merging folders is refused.
    fn refused(&self, folders: &[PathBuf]) -> String {
        match self.sweep().merge(folders) {
            Err(Failure::Input(text)) => text,
            other => panic!("{other:?}"),
        }
    }
}

fn made_with(guest: &str) -> MadeWith {
    MadeWith {
        setup: Digest::of(b"setup"),
        files: BTreeMap::from([("policies/x.toml".to_owned(), Digest::of(b"x"))]),
        measure: Digest::of(b"measure"),
        machine: Some(Machine {
            guest: Digest::of(guest.as_bytes()),
            kernel: Digest::of(b"kernel"),
            release: "6.1.0-1".to_owned(),
            emulator: "10.0.13".to_owned(),
        }),
    }
}

fn run(planned: &Planned<'_>) -> SingleRun {
    let (experiment, arm, seed) = planned.key();
    let recording = Digest::of(run_name(&planned.key()).as_bytes());
    // Figures have at most six decimals.
    let figure = f64::from(recording.to_string().as_bytes()[0]) * (seed as f64) / 64.0;
    SingleRun {
        figures: BTreeMap::from([("rtt.p.mean_ms".to_owned(), figure)]),
        made_with: planned.swept.made_with.clone(),
        experiment,
        arm,
        seed,
        recording,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn shards_put_together_are_one_process(
        of in 1_usize..12,
        seeds in prop::collection::vec(1_u16..9, 1..4),
    ) {
        let fixture = Fixture::new(&seeds);
        let sweep = fixture.sweep();
        let whole: Vec<(String, Measurement)> = fixture.experiments.iter().map(|swept| {
            let name = swept.subject.experiment().name.clone();
            let all = sweep.list().into_iter().filter(|one| one.key().0 == name);
            let all: Vec<SingleRun> = all.map(|one| run(&one)).collect();
            let seeds = swept.subject.seeds();
            (name, Measurement::of_single_runs(&swept.made_with, &seeds, &all))
        }).collect();
        let shards: Vec<PathBuf> = (1..=of)
            .map(|number| fixture.shard(&format!("{number}/{of}"), &format!("shard{number}")))
            // A shard without runs writes nothing.
            .filter(|folder| folder.exists())
            .collect();
        let files = shards.iter().map(|folder| runs::files(folder).unwrap().len());
        prop_assert_eq!(files.sum::<usize>(), sweep.list().len());
        let merged = sweep.merge(&shards).unwrap();
        prop_assert_eq!(&merged, &whole);
        let bytes = |all: &[(String, Measurement)]| serde_json::to_vec(all).unwrap();
        prop_assert_eq!(bytes(&merged), bytes(&whole));
        // The last shard is missing.
        if of > 1 {
            let lost = sweep.share(format!("{of}/{of}").parse().unwrap());
            match sweep.merge(&shards[..shards.len().min(of - 1)]) {
                Ok(_) => prop_assert!(lost.is_empty()),
                Err(failure) => prop_assert!(failure.text().contains("runs are missing")),
            }
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let fixture = Fixture::new(&[4, 3]);
    let first = fixture.shard("1/2", "first");
    fs::remove_file(first.join("a/plain-1.json")).unwrap();
    let refusal = "weirgate: runs are missing:\n  a, arm `plain`: seeds 1-2, 4\n  \
                a, arm `other`: seeds 2, 4\n  b, arm `plain`: seeds 2\n  \
                b, arm `other`: seeds 1, 3";
    assert_eq!(fixture.refused(&[first]), refusal);
    let nothing = fixture.at("nothing");
    let refusal = fixture.refused(std::slice::from_ref(&nothing));
    assert!(refusal.contains("nothing: No such file"), "{refusal}");
    fs::create_dir(&nothing).unwrap();
    let refusal = fixture.refused(&[nothing]);
    assert!(refusal.contains("nothing: has no runs"), "{refusal}");
}

#[test]
fn what_was_made_with_something_else_is_refused() {
    let mut fixture = Fixture::new(&[3]);
    fixture.experiments[0].made_with = made_with("other");
    let foreign = fixture.shard("1/3", "foreign");
    fixture.experiments[0].made_with = made_with("guest");
    let own = [
        fixture.shard("2/3", "own"),
        fixture.shard("3/3", "own"),
        foreign,
    ];
    let refusal = fixture.refused(&own);
    let line = "foreign/a/plain-1.json: a, arm `plain`, seed 1 was made with something else than \
                here: the guest's image";
    assert!(refusal.contains("runs cannot be put together"), "{refusal}");
    assert!(refusal.contains(line), "{refusal}");
    // The same shard refuses to continue in that folder, before it runs anything.
    let mut bench = Bench::new(&how());
    let on = fixture
        .sweep()
        .run(&mut bench, "1/3".parse().unwrap(), &own[2]);
    let refusal = on.map_err(|failure| failure.text()).unwrap_err();
    assert!(refusal.contains("the guest's image"), "{refusal}");
}

#[test]
fn what_is_no_run_of_these_is_refused() {
    let fixture = Fixture::new(&[3]);
    let folder = fixture.shard("1/1", "all");
    let file = folder.join("a/plain-2.json");
    let good = fs::read_to_string(&file).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1).into_bytes()
    };
    for (bytes, refusal) in [
        (Vec::new(), "plain-2.json: is not a run of `--shard`: EOF"),
        (good.as_bytes()[..good.len() / 2].to_vec(), "is not a run"),
        (vec![0xff; 40], "is not UTF-8"),
        (b"[".repeat(100_000), "is not a run of `--shard`: "),
        (with("\"arm\"", "\"arms\""), "unknown field `arms`"),
        (
            with("mean_ms\":", "mean_ms\":1e999,\"x\":"),
            "number out of range",
        ),
        (
            with("mean_ms\":", "mean_ms\":null,\"x\":"),
            "invalid type: null",
        ),
        (with("\"seed\":2", "\"seed\":-2"), "invalid value"),
        (with("\"seed\":2", "\"seed\":9"), "seed 9 is none of `a`"),
        (with("\"plain\"", "\"plane\""), "`a` has no arm `plane`"),
        (
            with("\"a\"", "\"../a\""),
            "is a run of `../a`, which is none of",
        ),
        (
            with("\"seed\":2", "\"seed\":3"),
            "seed 3 gave something else than in",
        ),
    ] {
        fs::write(&file, bytes).unwrap();
        let refused = fixture.refused(std::slice::from_ref(&folder));
        assert!(refused.contains(refusal), "{refusal}: {refused}");
    }
    // A duplicate file is accepted.
    fs::write(&file, &good).unwrap();
    let twice = [folder.clone(), folder.clone()];
    assert_eq!(fixture.sweep().merge(&twice).unwrap().len(), 1);
    let large = fs::File::create(&file).unwrap();
    large.set_len(1 << 30).unwrap();
    assert!(fixture.refused(&twice).contains("are read"));
}

#[test]
fn a_shard_that_is_done_runs_nothing() {
    let fixture = Fixture::new(&[3, 2]);
    let folder = fixture.shard("2/3", "shard");
    let shard = "2/3".parse().unwrap();
    let mut bench = Bench::new(&how());
    let done = fixture.sweep().run(&mut bench, shard, &folder).unwrap();
    let there = runs::files(&folder).unwrap().len();
    assert_eq!((done.runs, done.there, done.failed), (there, there, 0));
    let file = runs::files(&folder).unwrap().remove(0);
    fs::write(&file, "{").unwrap();
    let failure = fixture.sweep().run(&mut bench, shard, &folder).unwrap_err();
    assert!(failure.text().contains("remove it"), "{}", failure.text());
}

fn how() -> How {
    How {
        jobs: None,
        limit: 1,
        kernel: None,
    }
}
