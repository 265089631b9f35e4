// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds import cycles: files of one crate that cannot be read, moved or tested without each other.
//!
//! A file imports another if a path outside tests names something in it. A module's own `mod` lines
//! and re-exports of its children are its table of contents, not imports. A path through a
//! re-export counts as an import of the file that defines the item.

use super::paths::is_test;
use super::rust_files;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// How many files may import each other: two, such as a type and its parser.
const LARGEST: usize = 2;

/// A module by its path from the crate's root, whose path is empty.
type Module = Vec<String>;

/// Reports every cycle of more than [`LARGEST`] files below a crate's `src`.
pub(super) fn check(root: &Path, source: &Path, findings: &mut Vec<String>) -> Result<()> {
    let mut modules = BTreeMap::new();
    for file in rust_files(source)? {
        let inside = file.strip_prefix(source)?;
        let text = fs::read_to_string(&file)?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        let place = file.strip_prefix(root).unwrap_or(&file);
        let file = Source {
            place: place.display().to_string(),
            parsed,
        };
        modules.insert(module_of(inside), file);
    }
    for circle in circles(&imports(&modules)) {
        let files: Vec<&str> = circle
            .iter()
            .filter_map(|module| Some(modules.get(*module)?.place.as_str()))
            .collect();
        findings.push(format!(
            "{}: a circle of {} files that import each other: {}",
            source.strip_prefix(root).unwrap_or(source).display(),
            files.len(),
            files.join(" ")
        ));
    }
    Ok(())
}

struct Source {
    /// The file's path, from the project's root.
    place: String,
    parsed: syn::File,
}

/// Returns the module of a file: `tc/encode.rs` is `tc::encode`; `mod.rs`, `lib.rs` and `main.rs`
/// are their folder.
fn module_of(file: &Path) -> Module {
    let mut module: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let own = module.last().map(String::as_str);
    if matches!(own, Some("mod")) || module == ["lib"] || module == ["main"] {
        module.pop();
    }
    module
}

type Imports = BTreeMap<Module, BTreeSet<Module>>;

fn imports(modules: &BTreeMap<Module, Source>) -> Imports {
    let mut contents = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (module, source) in modules {
        let mut names = Names::of(module);
        names.visit_file(&source.parsed);
        contents.insert(module, names.exported);
        found.insert(module, names.paths);
    }
    let mut imports = Imports::new();
    for (module, paths) in found {
        let targets = paths.into_iter().filter_map(|mut path| {
            // A re-export may lead to another one; the depth is limited.
            for _ in 0..8 {
                let file = file_of(modules, &path);
                let next = path.get(file.len());
                let exported = next.and_then(|item| contents.get(&file)?.get(item));
                match exported {
                    Some(target) => path.splice(..=file.len(), target.iter().cloned()),
                    None => return Some(file),
                };
            }
            None
        });
        let own = targets.filter(|target| target != module).collect();
        imports.insert(module.clone(), own);
    }
    imports
}

/// Returns the innermost module on a path that is a file.
fn file_of(modules: &BTreeMap<Module, Source>, path: &[String]) -> Module {
    let mut file = path.to_vec();
    while !file.is_empty() && !modules.contains_key(&file) {
        file.pop();
    }
    file
}

/// The paths within its own crate that a file names, from the crate's root.
struct Names {
    /// The module that is being visited, including inline modules.
    module: Module,
    /// The child modules that the file declares.
    children: BTreeSet<String>,
    paths: BTreeSet<Module>,
    /// Items that are re-exported from a child, with their origins.
    exported: BTreeMap<String, Module>,
}

impl Names {
    fn of(module: &Module) -> Self {
        Self {
            module: module.clone(),
            children: BTreeSet::new(),
            paths: BTreeSet::new(),
            exported: BTreeMap::new(),
        }
    }

    /// Converts a path to one from the crate's root; returns `None` if it leads out of the crate or
    /// names something in the file itself.
    fn absolute(&self, segments: &[String]) -> Option<Module> {
        let first = segments.first()?;
        let mut path = match first.as_str() {
            "crate" => Module::new(),
            "self" | "super" => self.module.clone(),
            child if self.children.contains(child) => {
                let mut path = self.module.clone();
                path.push(child.to_owned());
                path
            }
            _ => return None,
        };
        if first == "super" {
            path.pop();
        }
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => drop(path.pop()),
                "self" => {}
                other => path.push(other.to_owned()),
            }
        }
        Some(path)
    }

    fn used(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.used(&path.tree, before, public);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for item in &group.items {
                    self.used(item, before, public);
                }
            }
            syn::UseTree::Name(name) => {
                self.named(before, &name.ident, &name.ident, public);
            }
            syn::UseTree::Rename(rename) => {
                self.named(before, &rename.ident, &rename.rename, public);
            }
            syn::UseTree::Glob(_) => {
                let path = self.absolute(before);
                let outside = |path: &Module| !(public && path.starts_with(&self.module));
                self.paths.extend(path.filter(outside));
            }
        }
    }

    fn named(&mut self, before: &[String], name: &syn::Ident, here: &syn::Ident, public: bool) {
        let mut segments = before.to_vec();
        segments.push(name.to_string());
        let Some(path) = self.absolute(&segments) else {
            return;
        };
        if public && path.starts_with(&self.module) {
            self.exported.insert(here.to_string(), path);
        } else {
            self.paths.insert(path);
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_file(&mut self, file: &'a syn::File) {
        for item in &file.items {
            if let syn::Item::Mod(child) = item {
                self.children.insert(child.ident.to_string());
            }
        }
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if is_test(&item.attrs) || item.content.is_none() {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_test(&item.attrs) {
            let public = !matches!(item.vis, syn::Visibility::Inherited);
            self.used(&item.tree, &mut Vec::new(), public);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.paths.extend(self.absolute(&segments));
        }
        visit::visit_path(self, path);
    }
}

/// Returns sets of modules each of which reaches all others of its set.
fn circles(imports: &Imports) -> Vec<BTreeSet<&Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|module| (module, reach(imports, module)))
        .collect();
    let mut circles: Vec<BTreeSet<&Module>> = reached
        .iter()
        .map(|(module, others)| {
            let back =
                |other: &&&Module| reached.get(**other).is_some_and(|it| it.contains(module));
            others.iter().filter(back).copied().collect()
        })
        .filter(|circle: &BTreeSet<&Module>| circle.len() > LARGEST)
        .collect();
    circles.sort_unstable();
    circles.dedup();
    circles
}

/// Returns what a module imports, directly or indirectly.
fn reach<'a>(imports: &'a Imports, from: &'a Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let direct = imports.get(module).into_iter().flatten();
        open.extend(direct.filter(|next| reached.insert(*next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let modules = files.iter().map(|(place, text)| {
            let parsed = syn::parse_file(text).unwrap();
            let place = (*place).to_owned();
            (module_of(Path::new(&place)), Source { place, parsed })
        });
        let imports = imports(&modules.collect());
        let names = |circle: BTreeSet<&Module>| circle.iter().map(|one| one.join("::")).collect();
        circles(&imports).into_iter().map(names).collect()
    }

    #[test]
    fn three_files_in_a_circle_are_found_and_two_are_not() {
        let root = ("lib.rs", "mod a; mod b; mod c; pub use a::A;");
        let two = [
            root,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "fn b() { super::a::f() }"),
            ("c.rs", "use crate::a;"),
        ];
        assert_eq!(found(&two), [[""; 0]; 0]);
        let three = [
            root,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "fn b() { crate::c::f() }"),
            ("c.rs", "use crate::A;"),
        ];
        assert_eq!(found(&three), [["a", "b", "c"]]);
    }

    #[test]
    fn helpers_in_a_folder_s_own_file_make_a_circle() {
        let files = [
            ("main.rs", "mod a;"),
            (
                "a/mod.rs",
                "mod b; mod c; fn run() { b::run(); c::run() } fn help() {}",
            ),
            ("a/b.rs", "use super::help;"),
            ("a/c.rs", "fn c() { super::help() }"),
        ];
        assert_eq!(found(&files), [["a", "a::b", "a::c"]]);
    }

    #[test]
    fn tests_and_tables_of_contents_are_no_imports() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&files), [[""; 0]; 0]);
    }
}
