// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds paths that a pure crate must not name, however they are imported.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// What a pure crate must not name, with everything below it.
const IMPURE: [&str; 15] = [
    "std::fs",
    "std::env",
    "std::thread",
    "std::process",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::unix::net",
    "std::hash::RandomState",
    "std::collections::hash_map::RandomState",
    "tokio",
    "rand",
    "getrandom",
];

/// Returns the impure paths that a file names outside tests.
pub(super) fn impure(text: &str) -> Result<BTreeSet<&'static str>> {
    let mut named = Named::default();
    named.visit_file(&syn::parse_file(text)?);
    let of = |path: &Vec<String>| {
        let mut whole = path.clone();
        if let Some(all) = path.first().and_then(|name| named.imported.get(name)) {
            whole[0].clone_from(all);
        }
        let whole = whole.join("::");
        IMPURE.into_iter().filter(move |bad| below(&whole, bad))
    };
    let mut found: BTreeSet<&str> = named.paths.iter().flat_map(of).collect();
    for glob in named.globs {
        found.extend(IMPURE.into_iter().filter(|bad| below(bad, &glob)));
    }
    Ok(found)
}

/// Returns whether a path is another one, or something in it.
fn below(path: &str, above: &str) -> bool {
    let after = path.strip_prefix(above);
    after.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The paths of a file.
#[derive(Default)]
struct Named {
    /// Paths as they are written, and whole paths of imports.
    paths: Vec<Vec<String>>,
    /// The whole path of each imported name.
    imported: BTreeMap<String, String>,
    /// The modules of which everything is imported.
    globs: Vec<String>,
}

impl Named {
    fn used(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.used(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for item in &group.items {
                    self.used(item, before);
                }
            }
            syn::UseTree::Name(name) => self.import(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.import(before, &rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => self.globs.push(before.join("::")),
        }
    }

    fn import(&mut self, before: &[String], name: &syn::Ident, here: &syn::Ident) {
        let mut path = before.to_vec();
        let mut here = here.to_string();
        if name == "self" {
            // `use std::time::{self}` imports `time`.
            if here == "self" {
                here = path.last().cloned().unwrap_or_default();
            }
        } else {
            path.push(name.to_string());
        }
        // `use rand;` says nothing new.
        if path.len() > 1 || path.first() != Some(&here) {
            self.imported.insert(here, path.join("::"));
        }
        self.paths.push(path);
    }
}

/// Returns whether an item is only in tests.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|word| word == "test")
    })
}

impl<'a> Visit<'a> for Named {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.used(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        // A single name is a local one, or its import is found.
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.paths.push(names.collect());
        }
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are not parsed; their words are taken as paths.
    fn visit_macro(&mut self, called: &'a syn::Macro) {
        let text = called.tokens.to_string();
        let text = text.replace(" ::", "::").replace(":: ", "::");
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let paths = words.filter(|word| word.contains("::"));
        let path = |word: &str| word.split("::").map(str::to_owned).collect();
        self.paths.extend(paths.map(path));
        visit::visit_macro(self, called);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impure_names_are_found_however_they_are_imported() {
        for (text, bad) in [
            ("use std::fs;", "std::fs"),
            ("use std::{fs, io};", "std::fs"),
            ("use std::time::{Duration, Instant};", "std::time::Instant"),
            (
                "use std::time::{self}; fn f() { time::Instant::now(); }",
                "std::time::Instant",
            ),
            (
                "use std::time as t; type A = t::SystemTime;",
                "std::time::SystemTime",
            ),
            ("use std::net::*;", "std::net::TcpListener"),
            (
                "use std::net; fn f() { net::TcpListener::bind(1); }",
                "std::net::TcpListener",
            ),
            (
                "use std::os::unix::net::UnixDatagram;",
                "std::os::unix::net",
            ),
            (
                "fn f() { std::os::unix::net::UnixListener::bind(1); }",
                "std::os::unix::net",
            ),
            (
                "fn f() { println!(\"{:?}\", std::env::args()); }",
                "std::env",
            ),
            (
                "#[cfg(test)]\nuse std::io;\nfn f() -> std::fs::File {}",
                "std::fs",
            ),
            (
                "#[cfg(test)]\nmod tests { use std::io; }\nuse std::fs::File;",
                "std::fs",
            ),
            ("fn f() { rand::random() }", "rand"),
        ] {
            assert!(impure(text).unwrap().contains(bad), "{text}");
        }
    }

    #[test]
    fn tests_and_names_alike_are_no_offence() {
        for text in [
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "#[cfg(test)]\nuse std::fs;",
            "struct A; impl A { #[cfg(test)] fn f() { std::fs::read(1); } }",
            "use std::time::Duration; use std::net::IpAddr; use std::{fmt, io::Write};",
            "mod operand { pub fn rand() {} } fn f() { operand::rand(); crate::env::x(); }",
            "use crate::process; fn f() { process::end(); let rand = 1; rand + 1 }",
        ] {
            assert_eq!(impure(text).unwrap(), BTreeSet::new(), "{text}");
        }
    }
}
