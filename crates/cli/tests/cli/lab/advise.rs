// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate advise`: from a question on the command line to the policy of the best setting, by
//! means of the laboratory.

use crate::program::{root, weirgate};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    #[test]
    fn a_question_is_answered_by_the_laboratory() {
        let question = [
            "advise",
            "prefer",
            "--rate",
            "2mbit",
            "--delay",
            "1ms",
            "--tcp",
            "1",
            "--others",
            "2",
            "--match",
            "address=192.0.2.0/28",
            "--json",
        ];
        let ended = weirgate(&root(), &question);
        assert_eq!(ended.status, 0, "{ended:?}");
        let answer: Value = serde_json::from_str(&ended.out).unwrap();
        let settings = answer["settings"].as_array().unwrap();
        let best = &settings[0];
        assert_eq!(best["name"], "priority-and-share", "{answer}");
        let figure = |setting: &Value, title: &str| {
            let figures = setting["figures"].as_array().unwrap();
            let found = figures.iter().find(|one| one["title"] == title).unwrap();
            (found["value"].as_f64().unwrap(), found["holds"] == true)
        };
        // The department gets nine tenths of what the line carries, the others get the rest.
        let (department, _) = figure(best, "dept kbit");
        let (others, left) = figure(best, "others kbit");
        assert!(left, "{best}");
        assert!(department > 1600.0 && others > 169.0, "{best}");
        // Settings that hold are ranked by the department's rate; the others follow.
        let ranks = settings.iter().map(|one| {
            let holds = one["figures"].as_array().unwrap().iter();
            (
                holds.clone().all(|one| one["holds"] == true),
                figure(one, "dept kbit").0,
            )
        });
        let ranks: Vec<(bool, f64)> = ranks.collect();
        assert!(ranks.is_sorted_by(|one, next| one.0 >= next.0), "{ranks:?}");
        let holding = ranks.iter().take_while(|one| one.0);
        assert!(
            holding.is_sorted_by(|one, next| one.1 >= next.1),
            "{ranks:?}"
        );

        let folder = TempDir::new().unwrap();
        let policy = folder.path().join("best.toml");
        fs::write(&policy, answer["policy"].as_str().unwrap()).unwrap();
        let checked = weirgate(folder.path(), &["check", "best.toml"]);
        assert_eq!(checked.status, 0, "{checked:?}");
    }
}
