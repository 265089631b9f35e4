// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bill of materials (CycloneDX 1.5): every crate of the programs in Cargo.lock, and the
//! packages of the libraries that they need.

use super::image;
use super::released::Release;
use crate::files::{text, write};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The packages whose programs are released.
const RELEASED: [&str; 3] = ["weirgate-cli", "weirgate-lab-cli", "weirgate-guest"];

pub fn make(release: &Release<'_>) -> Result<()> {
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
        components.push(library(&package)?);
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

/// Returns a package of Debian, in the version that was linked.
fn library(package: &str) -> Result<Value> {
    let mut ask = Command::new("dpkg-query");
    let version = text(ask.args(["-W", "-f", "${Version}", package]))?;
    Ok(json!({
        "type": "library",
        "name": package,
        "version": version,
        "purl": format!("pkg:deb/debian/{package}@{version}"),
        "bom-ref": format!("deb:{package}"),
    }))
}
