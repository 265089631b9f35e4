// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate schema`: every shipped policy fits it, and the parser refuses what does not fit, too.

use crate::program::{Ended, WEIRGATE, root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn schema() -> Value {
    let ended = Ended::of(&Command::new(WEIRGATE).arg("schema").output().unwrap());
    ended.says(0, &[]);
    serde_json::from_str(&ended.out).unwrap()
}

/// Returns why a value does not fit. It knows the keywords of draft 7 that our schema uses; any
/// other keyword fails the test.
fn misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let fits = |one: &Value| misfit(root, one, value, at).is_none();
    for (word, wanted) in schema.as_object().unwrap() {
        let right = match word.as_str() {
            "$schema" | "title" | "description" | "examples" | "definitions" | "deprecated" => true,
            "$ref" => {
                let name = wanted
                    .as_str()
                    .unwrap()
                    .trim_start_matches("#/definitions/");
                fits(&root["definitions"][name])
            }
            "type" => match wanted.as_array() {
                Some(any) => any.iter().any(|one| is(one, value)),
                None => is(wanted, value),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "anyOf" => wanted.as_array().unwrap().iter().any(fits),
            "allOf" => wanted.as_array().unwrap().iter().all(fits),
            "minimum" => value.as_f64().is_none_or(|n| n >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= wanted.as_f64().unwrap()),
            "minItems" => value
                .as_array()
                .is_none_or(|all| all.len() as u64 >= wanted.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(number_first),
            "items" => {
                let mut all = value.as_array().into_iter().flatten();
                if let Some(why) = all.find_map(|one| misfit(root, wanted, one, at)) {
                    return Some(why);
                }
                true
            }
            "required" => {
                let mut needed = wanted.as_array().unwrap().iter();
                needed.all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, inner) in wanted.as_object().unwrap() {
                    let found = value.get(name);
                    if let Some(why) =
                        found.and_then(|one| misfit(root, inner, one, &format!("{at}.{name}")))
                    {
                        return Some(why);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties");
                let mut others = value.as_object().into_iter().flatten().filter(|(name, _)| {
                    known.is_none_or(|known| known.get(name.as_str()).is_none())
                });
                match wanted {
                    Value::Bool(false) => others.next().is_none(),
                    inner => others.all(|(_, one)| misfit(root, inner, one, at).is_none()),
                }
            }
            other => panic!("`{other}` is not understood here"),
        };
        if !right {
            return Some(format!("{at}: `{word}` {wanted}: {value}"));
        }
    }
    None
}

/// Returns whether the text begins with a number; the rest is the unit. All patterns of the schema
/// have this form.
fn number_first(text: &str) -> bool {
    let text = text.trim();
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    rest.len() < text.len() && !rest.contains(|c: char| c.is_ascii_digit())
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("`{other}` is not understood here"),
    }
}

fn toml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            toml_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            found.push(path);
        }
    }
}

/// Returns the policies in the folder of experiments, and the experiments.
pub fn in_experiments() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut files = Vec::new();
    toml_files(&root().join("experiments"), &mut files);
    let is_policy = |file: &PathBuf| file.parent().is_some_and(|it| it.ends_with("policies"));
    files.into_iter().partition(is_policy)
}

fn value(text: &str) -> Option<Value> {
    let table: toml::Table = text.parse().ok()?;
    serde_json::to_value(table).ok()
}

#[test]
fn every_policy_that_ships_fits() {
    let schema = schema();
    let mut files = Vec::new();
    for folder in ["policies", "tests/policy/doubtful", "tests/cli/safe"] {
        toml_files(&root().join(folder), &mut files);
    }
    files.extend(in_experiments().0);
    assert!(files.len() > 150, "{}", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let why = misfit(&schema, &schema, &value(&text).unwrap(), "");
        assert_eq!(why, None, "{}", file.display());
    }
}

#[test]
fn former_names_are_deprecated() {
    let schema = schema();
    let text = fs::read_to_string(root().join("tests/policy/former.toml")).unwrap();
    assert_eq!(misfit(&schema, &schema, &value(&text).unwrap(), ""), None);
    let receive = &schema["definitions"]["receive"]["properties"];
    assert_eq!(receive["hold"]["deprecated"], true);
    assert_eq!(
        receive["hold"]["pattern"],
        receive["max-ack-delay"]["pattern"]
    );
    assert!(receive["max-ack-delay"].get("deprecated").is_none());
}

/// Each case has one mistake, as in the tests of crate policy.
#[test]
fn what_does_not_fit_is_refused() {
    let schema = schema();
    let text = fs::read_to_string(root().join("tests/policy/mistakes.txt")).unwrap();
    let golden = fs::read_to_string(root().join("crates/policy/tests/golden.rs")).unwrap();
    let sound = golden.split("const SOUND: &str = r#\"").nth(1).unwrap();
    let sound = sound.split("\"#;").next().unwrap();
    assert_eq!(misfit(&schema, &schema, &value(sound).unwrap(), ""), None);
    let (mut caught, mut all) = (0, 0);
    for case in text.split("## ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let added = rest.split("\n--\n").next().unwrap_or(rest).trim_end();
        let sound = if title.ends_with(" (whole)") {
            ""
        } else {
            sound
        };
        let source = match added.strip_prefix('^') {
            Some(top) => format!("{}\n{sound}", top.trim_start()),
            None => format!("{sound}{added}\n"),
        };
        let Some(value) = value(&source) else {
            continue;
        };
        all += 1;
        let (policy, _) = weirgate_policy::parse(&source);
        if let Some(why) = misfit(&schema, &schema, &value, "") {
            assert!(policy.is_none(), "{title}: the schema is too strict: {why}");
            caught += 1;
        }
    }
    // An editor reports these while the user types; `check` reports the others.
    assert!(caught >= 20, "{caught} of {all}");
}
