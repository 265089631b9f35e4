// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who may look: names with the hashes of their tokens or passwords, read from
//! a file, and how often somebody may guess.
//!
//! A token is made by [`token`]: 256 random bits, for which a plain hash is
//! enough, because nobody can try them all. A password is what a person can
//! remember, so its hash is slow (PBKDF2, RFC 8018 section 5.2).

use crate::WatchError;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{hmac, pbkdf2};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

/// Credentials of Basic (RFC 7617), with or without the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Rounds of a new password's hash: what the OWASP password storage cheat sheet
/// asks of PBKDF2 with SHA-256.
const ROUNDS: u32 = 600_000;
/// Rounds that a file may ask for: more would keep the service busy.
const MOST_ROUNDS: u32 = 10_000_000;
const FEWEST_ROUNDS: u32 = 10_000;
const SALT: usize = 16;
/// People and programs of one file.
const MOST: usize = 1_000;
/// The longest name, and the longest secret that is looked at.
const LONGEST_NAME: usize = 64;
const LONGEST_SECRET: usize = 256;
/// Guesses of passwords at once from one network, and the time after which it has
/// another.
const TRIES: u32 = 10;
const EACH: Duration = Duration::from_secs(10);
/// Networks whose guesses are counted; the one that guessed longest ago makes room.
const NETWORKS: usize = 4_096;

/// What somebody must show.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Secret {
    Token([u8; SHA256_OUTPUT_LEN]),
    Password {
        rounds: NonZeroU32,
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
}

/// Who may look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    names: BTreeMap<String, Secret>,
}

impl Access {
    /// Reads a file; every mistake in it is named.
    pub fn open(path: &Path) -> Result<Self, WatchError> {
        let wrong = |why: String| WatchError::Access {
            path: path.to_owned(),
            why,
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(format!(": {error}")))?;
        let access = Self::parse(&text).map_err(|problems| wrong(problems.join("\n")))?;
        if access.names.is_empty() {
            let how = ": nobody is named; `weirgate watch admit NAME --access FILE` adds somebody";
            return Err(wrong(how.to_owned()));
        }
        Ok(access)
    }

    /// Reads `NAME token HASH` or `NAME password ROUNDS SALT HASH` from each line
    /// that is neither empty nor begins with `#`; hashes and salts are
    /// hexadecimal. All problems begin with `:LINE: `.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut access = Self::default();
        let mut problems = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match entry(line) {
                Ok((name, _)) if access.names.contains_key(&name) => {
                    problems.push(format!(":{}: `{name}` is named twice", place + 1));
                }
                Ok((name, secret)) => {
                    access.names.insert(name, secret);
                }
                Err(why) => problems.push(format!(":{}: {why}", place + 1)),
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

    /// Whether this is a token: of `name`, or of anybody where only a token was shown.
    /// Cheap, because tokens cannot be guessed.
    fn has_token(&self, key: &hmac::Key, name: Option<&str>, secret: &[u8]) -> bool {
        let shown = digest(&SHA256, secret);
        let tokens = self.names.iter().filter_map(|(own, secret)| match secret {
            Secret::Token(hash) if name.is_none_or(|name| name == own) => Some(hash),
            _ => None,
        });
        // All are compared: how long it takes tells nothing.
        tokens.fold(false, |found, hash| {
            let tag = hmac::sign(key, hash);
            hmac::verify(key, shown.as_ref(), tag.as_ref()).is_ok() | found
        })
    }

    /// Whether this is the password of `name`. Takes the time of one slow hash where
    /// there are passwords, whether or not the name is known.
    fn has_password(&self, name: &str, secret: &[u8]) -> bool {
        let password = |secret: &Secret| matches!(secret, Secret::Password { .. });
        let own = self.names.get(name).filter(|own| password(own));
        match own.or_else(|| self.names.values().find(|other| password(other))) {
            Some(Secret::Password { rounds, salt, hash }) => {
                let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
                let right = pbkdf2::verify(algorithm, *rounds, salt, secret, hash).is_ok();
                right && own.is_some()
            }
            _ => false,
        }
    }
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

/// A new token, and the line that lets whoever shows it in.
pub fn token(name: &str) -> Result<(String, String), String> {
    check_name(name)?;
    let token = hexadecimal(&random::<32>()?);
    let hash = digest(&SHA256, token.as_bytes());
    let line = format!("{name} token {}", hexadecimal(hash.as_ref()));
    Ok((token, line))
}

/// The line that lets somebody in by a password.
pub fn password(name: &str, password: &str) -> Result<String, String> {
    check_name(name)?;
    if password.chars().count() < 12 || password.len() > LONGEST_SECRET {
        return Err(format!("a password has 12 to {LONGEST_SECRET} letters"));
    }
    let salt = random::<SALT>()?;
    let rounds = NonZeroU32::new(ROUNDS).unwrap_or(NonZeroU32::MIN);
    let mut hash = [0; SHA256_OUTPUT_LEN];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, rounds, &salt, password.as_bytes(), &mut hash);
    let (salt, hash) = (hexadecimal(&salt), hexadecimal(&hash));
    Ok(format!("{name} password {rounds} {salt} {hash}"))
}

/// A key of this process alone: what was compared under it tells nothing.
pub(crate) fn own_key() -> Result<hmac::Key, String> {
    let failed = |_| String::from("the kernel gives no random numbers");
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(failed)
}

/// What a request's `Authorization` says: a name, or none, and a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    name: Option<String>,
    secret: Vec<u8>,
}

impl Shown {
    /// Reads `Bearer TOKEN` (RFC 6750 section 2.1) or `Basic` and the name and
    /// secret in base 64 (RFC 7617 section 2); nothing that is too long for a secret.
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

    /// Whether it is a token that `access` has.
    pub(crate) fn is_token(&self, access: &Access, key: &hmac::Key) -> bool {
        access.has_token(key, self.name.as_deref(), &self.secret)
    }

    /// Whether it may be a password: it comes with a name.
    pub(crate) fn may_be_password(&self) -> bool {
        self.name.is_some()
    }

    /// Whether it is a password that `access` has; slow.
    pub(crate) fn is_password(&self, access: &Access) -> bool {
        let name = self.name.as_deref();
        name.is_some_and(|name| access.has_password(name, &self.secret))
    }
}

/// How often each network may still guess.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    /// Guesses that are used up, as of a time.
    used: BTreeMap<IpAddr, (u32, Instant)>,
}

impl Tries {
    /// Takes a guess; else after how many seconds there is one again.
    pub(crate) fn take(&mut self, from: IpAddr, now: Instant) -> Result<(), u64> {
        let from = network(from);
        let (used, since) = self.left(from, now);
        if used >= TRIES {
            let wait = (since + EACH).saturating_duration_since(now);
            return Err(wait.as_secs() + 1);
        }
        if self.used.len() >= NETWORKS && !self.used.contains_key(&from) {
            let oldest = self.used.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.used.remove(&oldest);
            }
        }
        self.used.insert(from, (used + 1, since));
        Ok(())
    }

    /// Gives a guess back: it was right.
    pub(crate) fn give_back(&mut self, from: IpAddr) {
        let from = network(from);
        if let Some((used, _)) = self.used.get_mut(&from) {
            *used = used.saturating_sub(1);
            if *used == 0 {
                self.used.remove(&from);
            }
        }
    }

    fn left(&self, from: IpAddr, now: Instant) -> (u32, Instant) {
        let Some((used, since)) = self.used.get(&from) else {
            return (0, now);
        };
        let passed = now.saturating_duration_since(*since);
        let back = (passed.as_secs() / EACH.as_secs()) as u32;
        match used.saturating_sub(back) {
            0 => (0, now),
            left => (left, *since + EACH * back),
        }
    }
}

/// Who has an address of IPv6 has all of its /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let upper = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(upper))
        }
        other @ IpAddr::V4(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            shown.is_token(&access, &key) || shown.is_password(&access)
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
        assert!(shown("Basic Yjpjb3JyZWN0IGhvcnNl").is_password(&access));
        assert!(!shown("Basic YjpjYjpjb3JyZWN0IGhvcnNl").is_password(&access));
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

    #[test]
    fn guesses_are_counted_by_network_and_come_back() {
        let mut tries = Tries::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..TRIES {
            tries.take(one, at(0)).unwrap();
        }
        assert_eq!(tries.take(same, at(1)), Err(10));
        tries.take(other, at(1)).unwrap();
        tries.take(same, at(10)).unwrap();
        assert_eq!(tries.take(one, at(10)), Err(11));
        tries.give_back(one);
        tries.take(one, at(10)).unwrap();
        // After a long time all are there, and no more.
        for _ in 0..TRIES {
            tries.take(one, at(100_000)).unwrap();
        }
        tries.take(one, at(100_000)).unwrap_err();
        // Many addresses keep no memory.
        for number in 0..2 * NETWORKS as u32 {
            let address = std::net::Ipv4Addr::from(number);
            tries.take(address.into(), at(100_001)).unwrap();
        }
        assert!(tries.used.len() <= NETWORKS);
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
