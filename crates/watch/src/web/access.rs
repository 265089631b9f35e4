// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Permitted users: names with the hashes of their tokens or passwords, read from a file.
//!
//! [`token`] makes a token of 256 random bits. A fast hash suffices for it, because nobody can
//! try all tokens. A password is short enough to remember, so its hash is slow (PBKDF2, RFC 8018
//! section 5.2).

use crate::WatchError;
use crate::file::read_text;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{hmac, pbkdf2};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;

/// The encoding of Basic credentials (RFC 7617), with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The rounds for a new password: the recommendation of the OWASP password storage cheat sheet
/// for PBKDF2 with SHA-256.
const ROUNDS: u32 = 600_000;
/// The largest number of rounds in a file; more would keep the service busy.
const MOST_ROUNDS: u32 = 10_000_000;
const FEWEST_ROUNDS: u32 = 10_000;
const SALT: usize = 16;
/// The largest number of names in a file.
const MOST: usize = 1_000;
/// The longest name, and the longest secret that is checked, in bytes.
const LONGEST_NAME: usize = 64;
const LONGEST_SECRET: usize = 256;
/// The secret of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Secret {
    Token([u8; SHA256_OUTPUT_LEN]),
    Password {
        rounds: NonZeroU32,
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
}

/// The permitted users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    names: BTreeMap<String, Secret>,
}

impl Access {
    /// Reads the text of a file that [`parse`](Self::parse) accepts. An error names every
    /// mistake.
    pub(crate) fn read(path: &Path) -> Result<String, WatchError> {
        let wrong = |why: String| WatchError::Access {
            path: path.to_owned(),
            why,
        };
        let text = read_text(path).map_err(|error| wrong(format!(": {error}")))?;
        let access = Self::parse(&text).map_err(|problems| wrong(problems.join("\n")))?;
        if access.names.is_empty() {
            let how = ": nobody is named; `weirgate watch admit NAME --access FILE` adds somebody";
            return Err(wrong(how.to_owned()));
        }
        Ok(text)
    }

    /// Parses `NAME token HASH` or `NAME password ROUNDS SALT HASH` from each line that is
    /// neither empty nor begins with `#`. Hashes and salts are hexadecimal. All problems begin
    /// with `:LINE: `.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut access = Self::default();
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match entry(line) {
                Ok((name, _)) if access.names.contains_key(&name) => {
                    problems.push(format!(":{}: `{name}` is named twice", index + 1));
                }
                Ok((name, secret)) => {
                    access.names.insert(name, secret);
                }
                Err(why) => problems.push(format!(":{}: {why}", index + 1)),
            }
        }
        if access.names.len() > MOST {
            problems.push(format!(": more than {MOST} names"));
        }
        if problems.is_empty() {
            Ok(access)
        } else {
            Err(problems)
        }
    }

    /// Returns whether this is the token of `name`, or without a name that of any user. A fast
    /// hash suffices, because tokens cannot be guessed. It compares all names and hashes, so
    /// that the time reveals nothing.
    fn has_token(&self, hashes: &impl Hashes, name: Option<&str>, secret: &[u8]) -> bool {
        let shown = digest(&SHA256, secret);
        let tokens = self.names.iter().filter_map(|(own, secret)| match secret {
            Secret::Token(hash) => Some((own, hash)),
            Secret::Password { .. } => None,
        });
        let found = tokens.fold(0, |found, (own, hash)| {
            let named = hashes.same(name.unwrap_or(own).as_bytes(), own.as_bytes());
            let right = hashes.same(shown.as_ref(), hash);
            found | (u8::from(named) & u8::from(right))
        });
        found != 0
    }

    /// Returns whether this is the password of `name`. To reveal nothing by the time, the work
    /// always equals that of the slowest hash: rounds are added after a faster one.
    fn has_password(&self, hashes: &impl Hashes, name: &str, secret: &[u8]) -> bool {
        let rounds_of = |secret: &Secret| match secret {
            Secret::Password { rounds, .. } => Some(*rounds),
            Secret::Token(_) => None,
        };
        let Some(most) = self.names.values().filter_map(rounds_of).max() else {
            return false;
        };
        let none = [0; SHA256_OUTPUT_LEN];
        let (known, rounds, salt, hash) = match self.names.get(name) {
            Some(Secret::Password { rounds, salt, hash }) => (true, *rounds, &**salt, &**hash),
            _ => (false, most, &none[..SALT], &none[..]),
        };
        let right = hashes.same(&hashes.slow(rounds, salt, secret), hash);
        if let Some(rest) = NonZeroU32::new(most.get() - rounds.get()) {
            hashes.slow(rest, salt, secret);
        }
        known & right
    }
}

/// The comparison of secrets.
pub(crate) trait Hashes {
    /// Returns whether both are equal, in a time that depends only on their lengths.
    fn same(&self, one: &[u8], other: &[u8]) -> bool;

    /// Computes the slow hash of a password.
    fn slow(&self, rounds: NonZeroU32, salt: &[u8], secret: &[u8]) -> [u8; SHA256_OUTPUT_LEN];
}

/// Compares under a key that only this process has.
impl Hashes for hmac::Key {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        hmac::verify(self, one, hmac::sign(self, other).as_ref()).is_ok()
    }

    fn slow(&self, rounds: NonZeroU32, salt: &[u8], secret: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
        slow(rounds, salt, secret)
    }
}

fn slow(rounds: NonZeroU32, salt: &[u8], secret: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, secret, &mut hash);
    hash
}

fn entry(line: &str) -> Result<(String, Secret), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words.first().copied().unwrap_or_default();
    check_name(name)?;
    let hash = |text: &str| {
        bytes(text)
            .filter(|hash| hash.len() == SHA256_OUTPUT_LEN)
            .ok_or_else(|| format!("a hash has {} hexadecimal digits", 2 * SHA256_OUTPUT_LEN))
    };
    let secret = match words[1..] {
        ["token", text] => {
            let found = hash(text)?.try_into();
            Secret::Token(found.map_err(|_| String::from("a hash has 64 digits"))?)
        }
        ["password", rounds, salt, text] => {
            let between = FEWEST_ROUNDS..=MOST_ROUNDS;
            let rounds = rounds
                .parse()
                .ok()
                .filter(|rounds| between.contains(rounds));
            let salt = bytes(salt).filter(|salt| (8..=64).contains(&salt.len()));
            Secret::Password {
                rounds: rounds.and_then(NonZeroU32::new).ok_or_else(|| {
                    format!("a password's hash has {FEWEST_ROUNDS} to {MOST_ROUNDS} rounds")
                })?,
                salt: salt.ok_or("a salt has 16 to 128 hexadecimal digits")?,
                hash: hash(text)?,
            }
        }
        _ => {
            return Err(String::from(
                "a line is `NAME token HASH` or `NAME password ROUNDS SALT HASH`; `weirgate watch \
                 admit` writes it",
            ));
        }
    };
    Ok((name.to_owned(), secret))
}

fn check_name(name: &str) -> Result<(), String> {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || "._@-".contains(letter);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fine) {
        return Err(format!(
            "`{}` is no name: 1 to {LONGEST_NAME} of a-z, A-Z, 0-9, `.`, `_`, `@` and `-`",
            name.escape_debug()
        ));
    }
    Ok(())
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8))
        .collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let failed = |_| String::from("the kernel gives no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Returns a new token, and the line that admits its bearer.
pub fn token(name: &str) -> Result<(String, String), String> {
    check_name(name)?;
    let token = hexadecimal(&random::<32>()?);
    let hash = digest(&SHA256, token.as_bytes());
    let line = format!("{name} token {}", hexadecimal(hash.as_ref()));
    Ok((token, line))
}

/// Returns the line that admits a user by a password.
pub fn password(name: &str, password: &str) -> Result<String, String> {
    check_name(name)?;
    if password.chars().count() < 12 || password.len() > LONGEST_SECRET {
        return Err(format!("a password has 12 to {LONGEST_SECRET} characters"));
    }
    let salt = random::<SALT>()?;
    let rounds = NonZeroU32::new(ROUNDS).unwrap_or(NonZeroU32::MIN);
    let hash = slow(rounds, &salt, password.as_bytes());
    let (salt, hash) = (hexadecimal(&salt), hexadecimal(&hash));
    Ok(format!("{name} password {rounds} {salt} {hash}"))
}

/// Makes a key that only this process has, so that comparisons under it reveal nothing.
pub(crate) fn own_key() -> Result<hmac::Key, String> {
    let failed = |_| String::from("the kernel gives no random numbers");
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(failed)
}

/// The credentials in a request's `Authorization`: an optional name, and a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    name: Option<String>,
    secret: Vec<u8>,
}

impl Shown {
    /// Parses `Bearer TOKEN` (RFC 6750 section 2.1), or `Basic` with name and secret in base 64
    /// (RFC 7617 section 2). Returns `None` if it is malformed or too long.
    pub(crate) fn read(header: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok()?;
        let (scheme, rest) = text.trim().split_once(' ')?;
        let rest = rest.trim();
        let (name, secret) = if scheme.eq_ignore_ascii_case("bearer") {
            (None, rest.as_bytes().to_vec())
        } else if scheme.eq_ignore_ascii_case("basic") {
            let mut name = BASE64.decode(rest).ok()?;
            let colon = name.iter().position(|byte| *byte == b':')?;
            let secret = name.split_off(colon + 1);
            name.pop();
            (Some(String::from_utf8(name).ok()?), secret)
        } else {
            return None;
        };
        (secret.len() <= LONGEST_SECRET).then_some(Self { name, secret })
    }

    /// Returns whether it is a token in `access`.
    pub(crate) fn is_token(&self, access: &Access, hashes: &impl Hashes) -> bool {
        access.has_token(hashes, self.name.as_deref(), &self.secret)
    }

    /// Returns whether it could be a password, which needs a name.
    pub(crate) fn may_be_password(&self) -> bool {
        self.name.is_some()
    }

    /// Returns whether it is a password in `access`; slow.
    pub(crate) fn is_password(&self, access: &Access, hashes: &impl Hashes) -> bool {
        let name = self.name.as_deref();
        name.is_some_and(|name| access.has_password(hashes, name, &self.secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn shown(text: &str) -> Shown {
        Shown::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn who_shows_the_right_secret_is_known() {
        let key = own_key().unwrap();
        let (token, line) = token("grafana").unwrap();
        assert_eq!(token.len(), 64);
        assert!(!line.contains(&token));
        let secret = password("ann", "correct horse").unwrap();
        let access = Access::parse(&format!("# who\n\n{line}\n{secret}\n")).unwrap();
        let known = |name: Option<&str>, secret: &str| {
            let shown = Shown {
                name: name.map(str::to_owned),
                secret: secret.as_bytes().to_vec(),
            };
            shown.is_token(&access, &key) || shown.is_password(&access, &key)
        };
        assert!(known(None, &token));
        assert!(known(Some("grafana"), &token));
        assert!(known(Some("ann"), "correct horse"));
        for (name, secret) in [
            (None, "correct horse"),
            (None, ""),
            (None, &token[1..]),
            (Some("ann"), &*token),
            (Some("ann"), "Correct horse"),
            (Some("bob"), "correct horse"),
            (Some(""), &*token),
            (Some("grafana"), HASH),
        ] {
            assert!(!known(name, secret), "{name:?} {secret}");
        }
    }

    #[test]
    fn a_hash_is_what_sha256sum_and_pbkdf2_make() {
        // printf test | sha256sum; hashlib.pbkdf2_hmac('sha256', b'correct horse',
        // bytes(range(16)), 10000).
        let text = format!(
            "a token {HASH}\nb password 10000 000102030405060708090a0b0c0d0e0f \
             e515070e0353a7db013961984b87babb9edccff4aadff4d081a0cfffc316e8bf\n"
        );
        let access = Access::parse(&text).unwrap();
        let key = own_key().unwrap();
        assert!(shown("Bearer test").is_token(&access, &key));
        assert!(shown("Basic Yjpjb3JyZWN0IGhvcnNl").is_password(&access, &key));
        assert!(!shown("Basic YjpjYjpjb3JyZWN0IGhvcnNl").is_password(&access, &key));
    }

    /// Counts the work: compared pairs, and rounds of slow hashes.
    #[derive(Default)]
    struct Counted {
        same: Cell<u64>,
        rounds: Cell<u64>,
    }

    impl Hashes for Counted {
        fn same(&self, one: &[u8], other: &[u8]) -> bool {
            self.same.set(self.same.get() + 1);
            one == other
        }

        fn slow(&self, rounds: NonZeroU32, _: &[u8], _: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
            self.rounds.set(self.rounds.get() + u64::from(rounds.get()));
            [0; SHA256_OUTPUT_LEN]
        }
    }

    /// The time of an answer does not reveal which names exist, and whether they have a token or
    /// a password.
    #[test]
    fn the_work_is_the_same_whatever_the_name() {
        let salt = "00".repeat(SALT);
        let text = format!(
            "one token {HASH}\ntwo token {HASH}\nslow password 900000 {salt} {HASH}\n\
             fast password 10000 {salt} {HASH}\n"
        );
        let access = Access::parse(&text).unwrap();
        for name in ["one", "two", "slow", "fast", "nobody", ""] {
            let counted = Counted::default();
            let shown = Shown {
                name: Some(name.to_owned()),
                secret: b"wrong".to_vec(),
            };
            assert!(!shown.is_token(&access, &counted));
            assert_eq!(counted.same.get(), 4, "{name}");
            assert!(!shown.is_password(&access, &counted));
            assert_eq!(counted.rounds.get(), 900_000, "{name}");
            assert_eq!(counted.same.get(), 5, "{name}");
        }
    }

    #[test]
    fn every_mistake_of_a_file_is_named() {
        let text = "a token 00\nb/c token 00\na password 1 00 00\nd\ne secret x\n# fine\n";
        let problems = Access::parse(text).unwrap_err();
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(problems[0].starts_with(":1: a hash has 64"), "{problems:?}");
        assert!(problems[4].starts_with(":5: a line is"), "{problems:?}");
        let twice = format!("a token {HASH}\na token {HASH}\n");
        assert_eq!(
            Access::parse(&twice).unwrap_err(),
            [":2: `a` is named twice"]
        );
        password("ann", "short").unwrap_err();
        token("a b").unwrap_err();
    }

    #[test]
    fn headers_are_read_or_refused() {
        let basic = shown("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(basic.name.as_deref(), Some("Aladdin"));
        assert_eq!(basic.secret, b"open sesame");
        assert_eq!(shown("BEARER  abc ").secret, b"abc");
        for wrong in ["", "Bearer", "Digest a", "Basic !!", "Basic QWxh", "Basic"] {
            assert_eq!(Shown::read(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Shown::read(b"Bearer \xff"), None);
        let long = format!("Bearer {}", "x".repeat(LONGEST_SECRET + 1));
        assert_eq!(Shown::read(long.as_bytes()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_file_and_any_header_do_no_harm(text in "\\PC{0,200}", bytes: Vec<u8>) {
            let _ = Access::parse(&text);
            let _ = Shown::read(&bytes);
            let _ = Shown::read(format!("Basic {text}").as_bytes());
        }
    }
}
