// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines: the node where they run, their words, and the parameters in braces.

use super::codes;
use super::scope::Scope;
use crate::{Command, Sweep};
use weirgate_document::{Reader, Value};

/// The largest number of arguments of one command.
const MOST_ARGUMENTS: usize = 256;

/// Parses `NODE: PROGRAM ARGUMENT...`.
pub(super) fn command(
    table: &Reader<'_, '_>,
    scope: &Scope,
    line: &Value<String>,
) -> Option<Command> {
    let hint = "write the place, a colon and the command: `gateway: tc qdisc show`";
    let wrong = |message: String| {
        table
            .problems()
            .error(codes::COMMAND, line.span.clone(), message, hint);
        None
    };
    let Some((node, rest)) = line.value.split_once(": ") else {
        return wrong(format!("`{}` does not say where it runs", line.value));
    };
    let node = Value {
        value: node.trim().to_owned(),
        span: line.span.clone(),
        line: line.line,
    };
    let node = scope.node_of(table, &node)?;
    match split(rest) {
        Err(problem) => wrong(problem),
        Ok(argv) if argv.is_empty() => wrong("the command is empty".to_owned()),
        Ok(argv) if argv.len() > MOST_ARGUMENTS => wrong(format!(
            "the command has more than {MOST_ARGUMENTS} arguments"
        )),
        Ok(argv) => Some(Command { node, argv }),
    }
}

/// Splits at white space; single and double quotes keep it. No shell is involved, so other
/// characters have no special meaning.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut quote: Option<char> = None;
    if text.contains('\0') {
        return Err("the command contains a zero byte".to_owned());
    }
    for c in text.chars() {
        if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && (c == '"' || c == '\'') {
            quote = Some(c);
            // Empty quotes are an argument too.
            current.get_or_insert_default();
        } else if quote.is_none() && c.is_whitespace() {
            arguments.extend(current.take());
        } else {
            current.get_or_insert_default().push(c);
        }
    }
    if let Some(open) = quote {
        return Err(format!("the command has a {open} without its end"));
    }
    arguments.extend(current);
    Ok(arguments)
}

/// Reports parameters in braces that no sweep has. Returns whether the sweep's own parameter is
/// used.
pub(super) fn check_parameters(
    table: &Reader<'_, '_>,
    line: &Value<String>,
    command: &Command,
    sweep: Option<&Sweep>,
) -> bool {
    let mut used = false;
    for name in command.argv.iter().flat_map(|text| parameters(text)) {
        if sweep.is_some_and(|sweep| gives(sweep, name)) {
            used = true;
            continue;
        }
        let message = format!("`{{{name}}}` has no value");
        let hint = match sweep {
            Some(sweep) => format!("the sweep's parameter is `{{{}}}`", sweep.parameter),
            None => "add a `[arm.sweep]` with this parameter, or write the value".to_owned(),
        };
        table
            .problems()
            .error(codes::SWEEP, line.span.clone(), message, hint);
    }
    used
}

/// Returns whether a sweep has a value for the text in braces: its parameter, or a word that
/// every value has.
fn gives(sweep: &Sweep, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(&sweep.parameter) else {
        return false;
    };
    let Some(word) = rest.strip_prefix('.') else {
        return rest.is_empty();
    };
    let has = |value: &String| {
        let mut words = 1..=value.split_whitespace().count();
        words.any(|at| at.to_string() == word)
    };
    sweep.values.iter().all(has)
}

/// Returns the names in braces in a text. Braces around words, as in nft syntax, are not
/// parameters.
pub(super) fn parameters(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        if !name.contains(char::is_whitespace) {
            names.push(name);
        }
        rest = after;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{gives, parameters, split};
    use crate::{Command, Node, Sweep};
    use std::collections::BTreeMap;

    #[test]
    fn commands_split_like_words_and_quotes() {
        let words = |text: &str| split(text).unwrap();
        assert_eq!(words("tc  qdisc\tshow "), ["tc", "qdisc", "show"]);
        assert_eq!(words(r#"a 'b c' "d"e '' "#), ["a", "b c", "de", ""]);
        assert!(words("  ").is_empty());
        assert!(split("a 'b").is_err());
        assert!(split("a\0").is_err());
    }

    #[test]
    fn parameters_are_the_names_in_braces() {
        assert_eq!(parameters("rate {rate} x{burst}y"), ["rate", "burst"]);
        assert!(parameters("no } { here").is_empty());
    }

    #[test]
    fn a_value_may_have_several_words() {
        let sweep = |values: &[&str]| Sweep {
            parameter: "rates".into(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
            best: "rtt.p.mean_ms".into(),
        };
        let pairs = sweep(&["1kbit 2kbit", "3kbit 4kbit"]);
        assert!(["rates", "rates.1", "rates.2"].map(|name| gives(&pairs, name)) == [true; 3]);
        assert!(
            ["rates.0", "rates.3", "rates.", "rates.01", "rate"].map(|n| gives(&pairs, n))
                == [false; 5]
        );
        assert!(!gives(&sweep(&["1kbit 2kbit", "3kbit"]), "rates.2"));
        let command = Command {
            node: Node::Gateway,
            argv: ["{rates.2}", "x{rates.1}", "{rates}"]
                .map(str::to_owned)
                .to_vec(),
        };
        let choice = BTreeMap::from([("rates".to_owned(), "1kbit 2kbit".to_owned())]);
        assert_eq!(command.resolve(&choice), ["2kbit", "x1kbit", "1kbit 2kbit"]);
    }
}
