// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What manual pages have beside clap's own text: each option's value in the synopsis, and the
//! environment.

use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Environment variables that are not read by clap: the beginning of the names of the pages that
/// have them, the name, and what it does.
const VARIABLES: &[(&str, &str, &str)] = &[
    (
        "weirgate",
        "NO_COLOR",
        "If it is set and not empty, output has no colours.",
    ),
    (
        "weirgate-watch",
        "STATE_DIRECTORY, XDG_STATE_HOME, HOME",
        "Without --history, the history is below the first of these that is set.",
    ),
    (
        "weirgate-watch",
        "SUDO_UID",
        "The user who called sudo(8); it is admitted over loopback without a token.",
    ),
    (
        "weirgate-lab",
        "WEIRGATE_CACHE",
        "The folder of kernels and images; without it, weirgate in XDG_CACHE_HOME or ~/.cache.",
    ),
    (
        "weirgate-lab-aqm",
        "CC, CLANG",
        "The compilers for this machine and for BPF.",
    ),
];

/// Replaces the synopses of a built command and of those below it by ones that have the values of
/// options.
pub(crate) fn with_synopsis(command: Command) -> Command {
    let usage = usage(&command);
    command.override_usage(usage).mut_subcommands(with_synopsis)
}

fn usage(command: &Command) -> String {
    let name = command.get_bin_name();
    let mut text = name.unwrap_or_else(|| command.get_name()).to_owned();
    let groups = command.get_groups().filter(|group| group.is_required_set());
    let groups: Vec<Vec<&Arg>> = groups
        .map(|group| {
            let members = command.get_arguments();
            let members = members.filter(|one| group.get_args().any(|id| id == one.get_id()));
            members.collect()
        })
        .filter(|members: &Vec<&Arg>| !members.is_empty())
        .collect();
    let shown = command.get_arguments().filter(|one| !one.is_hide_set());
    let (named, placed): (Vec<&Arg>, Vec<&Arg>) = shown
        .filter(|one| {
            !groups
                .iter()
                .flatten()
                .any(|it| it.get_id() == one.get_id())
        })
        .partition(|one| !one.is_positional());
    let mut add = |one: &Arg| {
        let form = form(one);
        let _ = if one.is_required_set() {
            write!(text, " {form}")
        } else {
            write!(text, " [{form}]")
        };
    };
    named.into_iter().for_each(&mut add);
    placed.into_iter().for_each(&mut add);
    for members in groups {
        let forms: Vec<String> = members.into_iter().map(form).collect();
        let _ = write!(text, " {{{}}}", forms.join(" | "));
    }
    if command.has_subcommands() {
        text.push_str(if command.is_subcommand_required_set() {
            " COMMAND"
        } else {
            " [COMMAND]"
        });
    }
    text
}

/// Returns an argument as it is written, such as `--rate RATE`.
fn form(one: &Arg) -> String {
    let names = [
        one.get_short().map(|short| format!("-{short}")),
        one.get_long().map(|long| format!("--{long}")),
    ];
    let names: Vec<String> = names.into_iter().flatten().collect();
    let mut form = names.join("|");
    let range = one.get_num_args().unwrap_or_default();
    if range.takes_values() {
        let id = one.get_id().as_str().to_uppercase();
        let values = one.get_value_names().map_or(id, |values| {
            let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
            values.join(" ")
        });
        if !form.is_empty() {
            form.push(' ');
        }
        form.push_str(&values);
    }
    let repeated = matches!(
        one.get_action(),
        clap::ArgAction::Append | clap::ArgAction::Count
    );
    if repeated || range.max_values() > 1 {
        form.push_str("...");
    }
    form
}

/// Collects the section about the environment of a built command's page, and of those below it, by
/// the page's name.
pub(crate) fn environments(command: &Command, found: &mut BTreeMap<String, String>) {
    let name = command.get_display_name();
    let name = name.unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = String::new();
    for one in command.get_arguments() {
        if let (Some(variable), Some(long)) = (one.get_env(), one.get_long()) {
            let variable = variable.to_string_lossy();
            item(&mut text, &variable, &format!("Stands for --{long}."));
        }
    }
    for (pages, variable, meaning) in VARIABLES {
        let rest = name.strip_prefix(pages);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            item(&mut text, variable, meaning);
        }
    }
    found.insert(format!("{name}.1"), format!(".SH ENVIRONMENT\n{text}"));
    for part in command.get_subcommands() {
        environments(part, found);
    }
}

fn item(text: &mut String, variable: &str, meaning: &str) {
    let meaning = meaning.replace('-', "\\-");
    let _ = writeln!(text, ".TP\n\\fB{variable}\\fR\n{meaning}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let rate = Arg::new("rate").long("rate").value_name("RATE");
        let file = Arg::new("file").value_name("FILE").required(true);
        let state = Arg::new("state")
            .long("state-dir")
            .env("WEIRGATE_STATE_DIR");
        let part = Command::new("watch").args([rate, file, state]);
        let mut program = Command::new("weirgate").subcommand(part);
        program.build();
        program
    }

    #[test]
    fn synopses_have_values_and_pages_the_environment() {
        let program = program();
        let part = program.find_subcommand("watch").expect("it was added");
        assert_eq!(
            usage(part),
            "weirgate watch [--rate RATE] [--state-dir STATE] [-h|--help] FILE"
        );
        let mut found = BTreeMap::new();
        environments(&program, &mut found);
        let page = &found["weirgate-watch.1"];
        assert!(page.contains("\\fBWEIRGATE_STATE_DIR\\fR\nStands for \\-\\-state\\-dir."));
        assert!(page.contains("SUDO_UID") && !found["weirgate.1"].contains("SUDO_UID"));
    }
}
