// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real parsers read the examples of `docs` and the README. Every field that a file of this
//! repository uses must occur in `docs`.

use crate::program::root;
use crate::schema::in_experiments;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use weirgate_document::Problem;

/// The parts that complete an example of a policy. A part is added if the example does not contain
/// the text on its left.
const POLICY: [(&str, &str); 3] = [
    (
        "[link]",
        "[link]\ndevice = 'wan'\nlan = 'lan'\nup = '10mbit'\ndown = '50mbit'\nlayer = 'vdsl2'\n",
    ),
    (
        "name = \"interactive\"",
        "[[class]]\nname = 'interactive'\nshare = '10%'\npriority = 0\n\
         [[rule]]\nclass = 'interactive'\ndscp = 'CS7'\n",
    ),
    (
        "default = true",
        "[[class]]\nname = 'rest'\nshare = '10%'\ndefault = true\n",
    ),
];

/// The parts that complete an example of an experiment.
const EXPERIMENT: [(&str, &str); 6] = [
    ("title =", "name = 'example'\ntitle = 'An example'\n"),
    (
        "[topology]",
        "[topology]\nhosts = 2\n[topology.line]\nup = { rate = '512kbit', buffer = '60kB' }\n\
         down = { rate = '2mbit', buffer = '60kB' }\n",
    ),
    (
        "[[phase]]",
        "[[phase]]\nname = 'alone'\nend = '20s'\n[[phase]]\nname = 'upload'\nend = '60s'\n",
    ),
    (
        "name = \"down\"",
        "[[traffic]]\nname = 'down'\nkind = 'tcp'\nfrom = 'server1'\nto = 'host1'\n",
    ),
    (
        "[[probe]]",
        "[[probe]]\nname = 'interactive'\nfrom = 'host1'\nto = 'provider'\ninterval = '100ms'\n",
    ),
    ("[[arm]]", "[[arm]]\nname = 'modem-only'\n"),
];

/// Returns the `toml` blocks of a page, with their line numbers.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() == "```toml" {
            let inside = lines.by_ref().map(|(_, line)| line);
            let block: Vec<&str> = inside.take_while(|line| line.trim() != "```").collect();
            found.push((number + 2, block.join("\n") + "\n"));
        }
    }
    found
}

/// Completes an example; one with a version is complete already.
fn whole(example: &str, parts: &[(&str, &str)]) -> String {
    if example.contains("version =") {
        return example.to_owned();
    }
    let missing = parts.iter().filter(|(has, _)| !example.contains(has));
    let (heads, rest): (Vec<&str>, Vec<&str>) = missing
        .map(|part| part.1)
        .partition(|text| !text.starts_with('['));
    // Fields before the first table are fields of the file itself.
    let tables = example.find('[').unwrap_or(example.len());
    let start = example[..tables].rfind('\n').map_or(0, |end| end + 1);
    let (head, body) = example.split_at(if example.starts_with('[') { 0 } else { start });
    format!(
        "version = 1\n{}{head}{body}\n{}",
        heads.concat(),
        rest.concat()
    )
}

fn check<T>(
    page: &str,
    least: usize,
    parts: &[(&str, &str)],
    parse: impl Fn(&str) -> (Option<T>, Vec<Problem>),
) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let examples = examples(&text);
    assert!(
        examples.len() >= least,
        "{page} has {} examples",
        examples.len()
    );
    for (line, example) in examples {
        let source = whole(&example, parts);
        let (value, problems) = parse(&source);
        let messages: Vec<String> = problems
            .iter()
            .map(|one| one.render(page, &source))
            .collect();
        assert!(
            value.is_some() && messages.is_empty(),
            "{page}, line {line}:\n{}",
            messages.join("\n")
        );
    }
}

#[test]
fn examples_of_policies_are_right() {
    check("docs/policy.md", 7, &POLICY, weirgate_policy::parse);
    check("docs/inbound.md", 1, &POLICY, weirgate_policy::parse);
    check("README.md", 1, &POLICY, weirgate_policy::parse);
}

#[test]
fn examples_of_experiments_are_right() {
    check(
        "docs/experiments.md",
        10,
        &EXPERIMENT,
        weirgate_experiment::parse,
    );
}

#[test]
fn a_wrong_example_is_found() {
    let (value, problems) = weirgate_policy::parse(&whole("[ack]\nreserve = \"much\"\n", &POLICY));
    assert!(value.is_none());
    assert_eq!(problems.len(), 1, "{problems:?}");
}

/// Tables whose keys are names that the author chooses.
const NAMED: [&str; 6] = ["class", "group", "service", "schedule", "map", "parameters"];

/// Collects the names of fields in a TOML value.
fn fields(value: &toml::Value, found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, inner) in table {
                found.insert(name.clone());
                match inner {
                    toml::Value::Table(chosen) if NAMED.contains(&name.as_str()) => {
                        chosen.values().for_each(|inner| fields(inner, found));
                    }
                    inner => fields(inner, found),
                }
            }
        }
        toml::Value::Array(list) => list.iter().for_each(|inner| fields(inner, found)),
        _ => {}
    }
}

/// Returns the file at a path from the root, or the files in that folder.
fn files(path: &str) -> Vec<PathBuf> {
    let path = root().join(path);
    match fs::read_dir(&path) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => vec![path],
    }
}

/// Checks that every field of the given files or folders is in one of the given pages or folders of
/// pages.
fn documented(pages: &[&str], paths: &[&str], least: usize) {
    let each = pages.iter().flat_map(|page| files(page));
    let text: String = each.map(|page| fs::read_to_string(page).unwrap()).collect();
    let mut found = BTreeSet::new();
    for path in paths {
        for file in files(path) {
            if file
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                let source = fs::read_to_string(&file).unwrap();
                let table: toml::Table = source.parse().unwrap();
                fields(&toml::Value::Table(table), &mut found);
            }
        }
    }
    assert!(found.len() >= least, "{found:?}");
    found.retain(|name| {
        let forms = [
            format!("`{name}`"),
            format!("[{name}]"),
            format!(".{name}]"),
        ];
        !forms.iter().any(|form| text.contains(form))
    });
    assert!(found.is_empty(), "{pages:?} do not explain {found:?}");
}

#[test]
fn every_field_in_use_is_explained() {
    documented(
        &[
            "docs/policy.md",
            "docs/inbound.md",
            "docs/conditioners.md",
            "docs/reference/disciplines",
        ],
        &["policies", "policies/services", "tests/policy/state"],
        45,
    );
    let (_, mut experiments) = in_experiments();
    experiments.push(root().join("crates/experiment/tests/good.toml"));
    let experiments: Vec<&str> = experiments.iter().filter_map(|it| it.to_str()).collect();
    documented(
        &["docs/experiments.md", "docs/reference/experiment-fields.md"],
        &experiments,
        50,
    );
}
