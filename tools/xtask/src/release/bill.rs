// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bill of materials (CycloneDX 1.5): every crate of the programs in Cargo.lock, the packages
//! of the libraries that they need, and the libraries in static programs.

use super::image;
use super::released::Release;
use crate::files::{text, write};
use crate::musl;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages whose programs are released.
const RELEASED: [&str; 3] = ["weirgate-cli", "weirgate-lab-cli", "weirgate-guest"];

/// The crate with the sources of libraries that are linked into static programs.
const VENDOR: &str = "libbpf-sys";

/// These libraries: the name, the file with the version, and the text before it.
const VENDORED: [(&str, &str, &str); 2] = [
    ("elfutils", "elfutils/configure.ac", "AC_INIT([elfutils],["),
    ("zlib", "zlib/zlib.h", "#define ZLIB_VERSION \""),
];

/// Writes the bill; `with_static` if there are static programs.
pub fn make(release: &Release<'_>, with_static: bool) -> Result<()> {
    let mut metadata = crate::command::cargo(release.root);
    metadata.args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
    ]);
    metadata.arg(format!("{}-unknown-linux-gnu", release.machine));
    let metadata: Value = serde_json::from_str(&text(&mut metadata)?)?;
    let lock = std::fs::read_to_string(release.root.join("Cargo.lock"))?;
    let lock: toml::Table = toml::from_str(&lock)?;
    let mut components = crates(&metadata, &sums(&lock))?;
    for package in image::foreign(&release.program)? {
        components.push(library(&package, None)?);
    }
    if with_static {
        components.extend(vendored(&vendor(&metadata)?)?);
        let packages = musl::system(release.root).join("var/lib/dpkg");
        components.push(library("musl-dev", Some(&packages))?);
    }
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date(&release.epoch)?,
            "component": {
                "type": "application",
                "name": "weirgate",
                "version": release.version,
                "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
            },
        },
        "components": components,
    });
    let place = release.folder.join(format!("{}.cdx.json", release.name));
    write(&place, &serde_json::to_vec_pretty(&bill)?, 0o644)
}

fn date(epoch: &str) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d", &format!("@{epoch}")]);
    Ok(text(&mut date)?.trim().to_owned())
}

/// Returns the checksums of the registry's crates.
fn sums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let of = |package: &toml::Value| {
        let field = |name: &str| Some(package.get(name)?.as_str()?.to_owned());
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    packages.into_iter().flatten().filter_map(of).collect()
}

/// Returns the crates that the released ones depend on, except for tests.
fn crates(metadata: &Value, sums: &BTreeMap<(String, String), String>) -> Result<Vec<Value>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (of(&package, "id"), package))
        .collect();
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = |need: &Value| {
            let kinds = list(&need["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"] != "dev")
        };
        let all = list(&node["deps"]);
        let all = all.iter().filter(|need| normal(need));
        needs.insert(of(&node, "id"), all.map(|need| of(need, "pkg")).collect());
    }
    let released = |package: &&Value| RELEASED.contains(&of(package, "name").as_str());
    let mut open: Vec<String> = packages
        .values()
        .filter(released)
        .map(|package| of(package, "id"))
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            open.extend(needs.get(&id).cloned().unwrap_or_default());
        }
    }
    seen.iter()
        .map(|id| {
            let package = packages
                .get(id)
                .context("a crate that cargo does not list")?;
            let (name, version) = (of(package, "name"), of(package, "version"));
            let mut component = json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "bom-ref": format!("{name}@{version}"),
            });
            if let Some(license) = package["license"].as_str() {
                component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
            }
            if let Some(sum) = sums.get(&(name, version)) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
            }
            Ok(component)
        })
        .collect()
}

/// Returns the folder of the crate with libraries.
fn vendor(metadata: &Value) -> Result<PathBuf> {
    let packages = metadata["packages"].as_array();
    let crates = packages.into_iter().flatten();
    let mut own = crates.filter(|package| package["name"] == VENDOR);
    let manifest = own.find_map(|own| own["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    Ok(folder.context(VENDOR)?.to_owned())
}

/// Returns the libraries whose sources are in a folder.
fn vendored(folder: &Path) -> Result<Vec<Value>> {
    let library = |(name, file, before): (&str, &str, &str)| {
        let text = std::fs::read_to_string(folder.join(file)).context(file.to_owned())?;
        let rest = text.lines().find_map(|line| line.strip_prefix(before));
        let version = rest.and_then(|rest| rest.split([']', '"']).next());
        let version = version.with_context(|| format!("{file} names no version"))?;
        Ok(json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:generic/{name}@{version}"),
            "bom-ref": format!("{VENDOR}:{name}"),
        }))
    };
    VENDORED.into_iter().map(library).collect()
}

/// Returns a package of Debian, in the version that was linked: one of this machine, or of the
/// system with this folder of dpkg's.
fn library(package: &str, system: Option<&Path>) -> Result<Value> {
    let mut ask = Command::new("dpkg-query");
    ask.args(system.map(|folder| format!("--admindir={}", folder.display())));
    // A line for each architecture.
    let versions = text(ask.args(["-W", "-f", "${Version}\\n", package]))?;
    let version = versions.lines().next().context(package.to_owned())?;
    Ok(json!({
        "type": "library",
        "name": package,
        "version": version,
        "purl": format!("pkg:deb/debian/{package}@{version}"),
        "bom-ref": format!("deb:{package}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_static_programs_have_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file, text: &str| write(&folder.path().join(file), text.as_bytes(), 0o644);
        let elfutils = "dnl head\nAC_INIT([elfutils],[0.191],[https://a])\n";
        put("elfutils/configure.ac", elfutils).unwrap();
        put("zlib/zlib.h", "#define ZLIB_VERSION \"1.2.13\"\n").unwrap();
        let found = vendored(folder.path()).unwrap();
        let names = found.iter().map(|one| one["purl"].as_str().unwrap());
        let expected = ["pkg:generic/elfutils@0.191", "pkg:generic/zlib@1.2.13"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        put("zlib/zlib.h", "").unwrap();
        assert!(vendored(folder.path()).is_err());
    }

    #[test]
    fn a_package_of_this_machine_has_one_version() {
        let libc = library("libc6", None).unwrap();
        let version = libc["version"].as_str().unwrap();
        assert!(!version.is_empty() && !version.contains('\n'));
    }
}
