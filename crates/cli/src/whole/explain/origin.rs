// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The origin of a rule in the policy.

use crate::whole::explain::outcome::About;
use weirgate_state::Origin;

/// The text in the policy that causes a rule.
pub struct PolicyText {
    /// The place, such as `home.toml:12`, or else the file.
    pub name: String,
    /// The text at that place.
    pub quoted: Option<String>,
}

/// Returns the text behind an origin: its line, or the line of an included file that its reason
/// names.
pub fn policy_text(about: &About<'_>, origin: &Origin) -> PolicyText {
    let own = about.name.display().to_string();
    let (file, line) = if origin.line > 0 {
        (own.clone(), origin.line)
    } else {
        let included = origin.reason.split_once(" line ").and_then(|(file, rest)| {
            let line = rest.split(':').next()?.parse().ok()?;
            Some((file.to_owned(), line))
        });
        match included {
            Some(found) => found,
            None => {
                return PolicyText {
                    name: own,
                    quoted: None,
                };
            }
        }
    };
    let text = if file == own {
        about.sources.first()
    } else {
        about
            .sources
            .iter()
            .find(|source| source.path.ends_with(&file))
    };
    let quoted = text.map(|source| quote(&source.text, line as usize));
    PolicyText {
        name: format!("{file}:{line}"),
        quoted: quoted.filter(|quoted| !quoted.is_empty()),
    }
}

/// Returns a table of the policy as one line, from its head to the next blank line.
fn quote(text: &str, line: usize) -> String {
    let mut lines = text.lines().skip(line.saturating_sub(1));
    let head = lines.next().unwrap_or_default().trim().to_owned();
    let rest: Vec<&str> = lines
        .map(|line| line.split(" #").next().unwrap_or_default().trim())
        .take_while(|line| !line.is_empty() && !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .take(8)
        .collect();
    if rest.is_empty() {
        return head;
    }
    format!("{head} {}", rest.join("; "))
}
