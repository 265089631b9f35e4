// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receivers of metrics, as the command line names them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// The protocol of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Prometheus' remote write 1.0.
    RemoteWrite,
    /// OTLP over HTTP, as protocol buffers.
    Otlp,
}

/// A receiver of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The protocol.
    pub kind: Kind,
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) authorization: Option<PathBuf>,
}

impl Receiver {
    /// Parses `URL` or `URL,FILE`; the file contains the value of `Authorization`.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}`: {why}");
        let (url, file) = match text.rsplit_once(',') {
            Some((url, file)) if !file.is_empty() => (url, Some(PathBuf::from(file))),
            _ => (text, None),
        };
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("say `https://HOST/PATH`")),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(wrong(
                "put what it asks for into a file, and the file's name behind a comma: all can \
                 read a command line",
            ));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let number = port.parse().ok().filter(|number| *number > 0);
                (host, number.ok_or_else(|| wrong("a port is 1 to 65535"))?)
            }
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let named = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
        if host.is_empty() || !host.chars().all(named) {
            return Err(wrong("it names no host"));
        }
        let here = host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if file.is_some() && !tls && !here {
            return Err(wrong(
                "what it asks for could be read on the way; say `https://`",
            ));
        }
        let path = match (path, kind) {
            ("" | "/", Kind::RemoteWrite) => "/api/v1/write",
            ("" | "/", Kind::Otlp) => "/v1/metrics",
            (path, _) => path,
        };
        if !path.chars().all(|letter| letter.is_ascii_graphic()) || path.contains('#') {
            return Err(wrong("its path has letters that must be percent-encoded"));
        }
        Ok(Self {
            kind,
            tls,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            authorization: file,
        })
    }

    /// Returns host and port in the syntax of a URL.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// Writes the URL without its query, which may be secret.
impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_read_or_refused() {
        let read = |text| Receiver::parse(Kind::RemoteWrite, text);
        let shown = |text| read(text).map(|one| one.to_string());
        for (text, url) in [
            ("https://example.org", "https://example.org/api/v1/write"),
            ("http://[::1]:9090/w?key=1", "http://[::1]:9090/w"),
            ("https://a.example:443/x,/etc/secret", "https://a.example/x"),
            ("http://127.0.0.1:80,token", "http://127.0.0.1/api/v1/write"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(url));
        }
        let otlp = Receiver::parse(Kind::Otlp, "http://localhost:4318/").unwrap();
        assert_eq!(otlp.to_string(), "http://localhost:4318/v1/metrics");
        for wrong in [
            "",
            "example.org",
            "https://",
            "https://:1/",
            "https://a:0/",
            "https://a:b/",
            "https://user:secret@a/",
            "http://a.example/,/etc/secret",
            "https://a b/",
            "https://a/ b",
            "https://a/\r\nx: y",
            "https://a/#b",
            "ftp://a/",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
