// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a machine's own apt sources to those of another Debian suite, so that its mirror,
//! keys and proxies are used and no address is hard-coded.
//!
//! Options that disable checks of a source (`trusted`, `check-valid-until`, `allow-insecure`)
//! are dropped. Fetched programs are executed, so apt must find them signed and not expired.

/// The component of an archive that is Debian proper.
pub(crate) const MAIN: &str = "main";

/// The option of a source that is also valid for another suite: its key.
const SIGNED_BY: &str = "signed-by";

/// Returns the Debian archives in a `.list` file as deb822 stanzas for these `components` of
/// `suite`. `base` has the names of the machine's own release.
pub(crate) fn from_list(text: &str, base: &[&str], suite: &str, components: &str) -> Vec<String> {
    let mut stanzas = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(rest) = line.trim().strip_prefix("deb").filter(starts_with_space) else {
            continue;
        };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (Some(address), Some(found)) = (words.next(), words.next()) else {
            continue;
        };
        if !base.contains(&found) || !words.any(|component| component == MAIN) {
            continue;
        }
        let mut fields = vec![("URIs".to_owned(), address.to_owned())];
        for option in options.split_whitespace() {
            if let Some((name, value)) = option.split_once('=')
                && name.eq_ignore_ascii_case(SIGNED_BY)
            {
                fields.push((name.to_owned(), value.replace(',', " ")));
            }
        }
        stanzas.push(stanza(&fields, suite, components));
    }
    stanzas
}

/// Returns the Debian archives in a `.sources` file (deb822), as [`from_list`] does.
pub(crate) fn from_deb822(text: &str, base: &[&str], suite: &str, components: &str) -> Vec<String> {
    let mut stanzas = Vec::new();
    for fields in stanzas_of(text) {
        let words = |name: &str| {
            fields
                .iter()
                .find(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.split_whitespace().collect::<Vec<_>>())
                .unwrap_or_default()
        };
        let disabled = words("Enabled")
            .iter()
            .any(|value| ["no", "false", "off", "0"].contains(value));
        if disabled
            || !words("Types").contains(&"deb")
            || !words("Components").contains(&MAIN)
            || !words("Suites").iter().any(|found| base.contains(found))
        {
            continue;
        }
        let kept: Vec<(String, String)> = fields
            .iter()
            .filter(|(field, _)| {
                let same = |name: &str| field.eq_ignore_ascii_case(name);
                same("uris") || same(SIGNED_BY)
            })
            .cloned()
            .collect();
        stanzas.push(stanza(&kept, suite, components));
    }
    stanzas
}

/// Returns the fields of each stanza. Continuation lines are kept, because a key may be embedded
/// in a value.
fn stanzas_of(text: &str) -> Vec<Vec<(String, String)>> {
    let mut stanzas = vec![Vec::<(String, String)>::new()];
    for line in text.lines() {
        let current = stanzas.len() - 1;
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
        } else if line.starts_with('#') {
            // A comment may occur between the lines of a field.
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanzas[current].last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanzas[current].push((name.to_owned(), value.trim().to_owned()));
        }
    }
    stanzas
}

fn stanza(fields: &[(String, String)], suite: &str, components: &str) -> String {
    let mut text = format!("Types: deb\nSuites: {suite}\nComponents: {components}\n");
    for (name, value) in fields {
        for part in [name, ": ", value, "\n"] {
            text.push_str(part);
        }
    }
    text
}

fn starts_with_space(text: &&str) -> bool {
    text.starts_with([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [&str; 2] = ["bookworm", "oldstable"];

    #[test]
    fn classic_lines() {
        let text = "\
# deb http://commented.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # ours
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian bookworm-updates main
deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] http://second.example/debian/ oldstable main
deb http://other.example/apt cloud-bookworm main
deb http://other.example/apt bookworm extras
";
        assert_eq!(
            from_list(text, &BASE, "new-backports", MAIN),
            [
                "Types: deb\nSuites: new-backports\nComponents: main\n\
                 URIs: http://mirror.example/debian\n",
                "Types: deb\nSuites: new-backports\nComponents: main\n\
                 URIs: http://second.example/debian/\nsigned-by: /k/a.gpg /k/b.gpg\n",
            ]
        );
    }

    #[test]
    fn deb822_stanzas() {
        let text = "\
Types: deb deb-src
# the mirror
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
";
        assert_eq!(
            from_deb822(text, &BASE, "new-backports", MAIN),
            ["Types: deb\nSuites: new-backports\nComponents: main\n\
              URIs: http://mirror.example/debian\n\
              Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"]
        );
    }

    #[test]
    fn other_parts_of_an_archive_are_asked_for_by_name() {
        let line = "deb http://mirror.example/debian bookworm main\n";
        let stanzas = from_list(line, &BASE, "bookworm", "main non-free");
        assert!(
            stanzas[0].contains("\nComponents: main non-free\n"),
            "{stanzas:?}"
        );
    }

    #[test]
    fn no_source_is_trusted_without_a_signature() {
        let line = "deb [trusted=yes Check-Valid-Until=no allow-insecure=yes] \
                    http://mirror.example/debian bookworm main\n";
        let stanza = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n\
                      Components: main\nTrusted: yes\nCheck-Valid-Until: no\n\
                      Allow-Insecure: yes\n";
        let expected = "Types: deb\nSuites: new-backports\nComponents: main\n\
                        URIs: http://mirror.example/debian\n";
        assert_eq!(from_list(line, &BASE, "new-backports", MAIN), [expected]);
        assert_eq!(
            from_deb822(stanza, &BASE, "new-backports", MAIN),
            [expected]
        );
    }
}
