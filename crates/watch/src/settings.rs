// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that the collector sends to the web process, which cannot open files: at its start,
//! and when one of them changes.

use serde_json::{Value, json};

/// The permitted users and the certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether a proxy with authentication is in front.
    pub(crate) behind_proxy: bool,
    /// Local users who may see the data over loopback without an access list.
    pub(crate) users: Vec<u32>,
    /// The certificate and its key (PEM).
    pub(crate) tls: Option<(String, String)>,
    /// The text of the access list.
    pub(crate) access: Option<String>,
}

impl Settings {
    pub(crate) fn text(&self) -> String {
        json!({
            "behind_proxy": self.behind_proxy,
            "users": self.users,
            "tls": self.tls,
            "access": self.access,
        })
        .to_string()
    }

    /// Parses settings; returns `None` if this program cannot have made them.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let whole: Value = serde_json::from_slice(text).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let users = whole.get("users")?.as_array()?;
        let tls = match whole.get("tls")? {
            Value::Null => None,
            both => Some((text(both.get(0)?)?, text(both.get(1)?)?)),
        };
        let users = users.iter().map(|user| user.as_u64()?.try_into().ok());
        Some(Self {
            behind_proxy: whole.get("behind_proxy")?.as_bool()?,
            users: users.collect::<Option<_>>()?,
            tls,
            access: whole.get("access").and_then(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_meant() {
        let one = Settings {
            behind_proxy: true,
            users: vec![0, 1000],
            tls: Some((String::from("chain\n"), String::from("\"key\"\n"))),
            access: Some(String::from("a token 00\n")),
        };
        for settings in [one, Settings::default()] {
            let text = settings.text();
            assert_eq!(Settings::read(text.as_bytes()), Some(settings));
        }
        for wrong in ["", "{}", "[]", "{\"users\":[-1],\"tls\":null}"] {
            assert_eq!(Settings::read(wrong.as_bytes()), None);
        }
    }
}
