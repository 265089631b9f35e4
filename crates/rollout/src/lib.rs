// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rolls a DiffServ domain out over ssh: plans and applies each router's
//! policy and circuits, and measures from end to end what was promised.
//!
//! What reaches a router needs ssh. What each router is to have is known without it:
//!
//! ```
//! use std::path::Path;
//!
//! let file = Path::new("../../domains/university.toml");
//! let Ok(Some((domain, check, policies))) = weirgate_rollout::sound(file) else {
//!     panic!("a domain whose promises can be kept");
//! };
//! assert!(check.findings.is_empty());
//! assert!(domain.routers.keys().eq(policies.keys()));
//! ```

pub mod apply;
pub mod audit;
pub mod circuits;
mod connections;
pub mod end;
pub mod json;
pub mod namespaces;
pub mod part;
pub mod ssh;
mod transport;
pub mod verify;
pub mod within;

use std::path::Path;
use weirgate_console::exit::Failure;
use weirgate_console::json::Document;
use weirgate_console::source;
use weirgate_domain::{Check, Domain, Report, router_policies};

/// A domain whose promises can be kept, the worst case of each promise, and the policy of each
/// router.
pub type Sound = (Domain, Check, part::Texts);

/// The same with all parts of each router.
pub type Whole = (Domain, Check, part::Parts);

/// Reads a domain file, returns it with its text, and checks its promises.
///
/// # Errors
/// If the file cannot be read or has mistakes; every problem is reported.
pub fn read(path: &Path) -> Result<(Domain, Check, String), Failure> {
    let text = source::read(path)?;
    let domain = source::parse(path, &text, weirgate_domain::parse)?;
    let check = weirgate_domain::check(&domain);
    Ok((domain, check, text))
}

/// Returns a domain whose promises can be kept, with each router's policy; otherwise prints which
/// cannot.
///
/// # Errors
/// If the file cannot be read or has mistakes; every problem is reported.
pub fn sound(path: &Path) -> Result<Option<Sound>, Failure> {
    Ok(kept(path, &Document::none())?.map(|(sound, _)| sound))
}

/// Does the same with all parts of each router. The document gets the promises that cannot be kept,
/// if there are some.
///
/// # Errors
/// If the file, or one that it names, cannot be read or has mistakes; every problem is reported.
pub fn whole(path: &Path, document: &Document) -> Result<Option<Whole>, Failure> {
    let Some(((domain, check, policies), text)) = kept(path, document)? else {
        return Ok(None);
    };
    let lists = circuits::lists(path, &text, &domain)?;
    Ok(Some((domain, check, part::parts(policies, lists.texts()))))
}

/// Returns a domain whose promises can be kept, with the file's text.
fn kept(path: &Path, document: &Document) -> Result<Option<(Sound, String)>, Failure> {
    let (domain, check, text) = read(path)?;
    if !check.findings.is_empty() {
        let report = Report {
            domain: &domain,
            check: &check,
            details: false,
        };
        json::put_check(document, &domain, &check);
        document.note(&report.to_string());
        return Ok(None);
    }
    let policies = router_policies(&domain, &check);
    Ok(Some(((domain, check, policies), text)))
}
