// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The container image, made without a container tool: one layer with the program and its
//! libraries, in the OCI image layout (image-spec 1.1).

use super::archive;
use super::released::{Release, sum};
use crate::files::{empty, put, put_all, text, write};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub fn make(release: &Release<'_>) -> Result<()> {
    let work = release.folder.join("image");
    empty(&work)?;
    let tree = work.join("tree");
    put(&release.program, &tree.join("usr/bin/weirgate"), 0o755)?;
    for library in libraries(&release.program)? {
        let below = library.strip_prefix("/").context("a library's place")?;
        put(&library, &tree.join(below), 0o755)?;
    }
    let policies = release.root.join("policies");
    put_all(&policies, &tree.join("usr/share/doc/weirgate/policies"))?;
    fs::create_dir_all(tree.join("var/lib/weirgate"))?;
    fs::create_dir_all(tree.join("run"))?;
    let layout = work.join("layout");
    let layer = work.join("layer");
    archive::pack(&tree, ".", &layer, &release.epoch)?;
    let layer = blob(&layout, &fs::read(&layer)?, LAYER)?;
    let mut date = Command::new("date");
    date.args([
        "-u",
        "+%Y-%m-%dT%H:%M:%SZ",
        "-d",
        &format!("@{}", release.epoch),
    ]);
    let created = text(&mut date)?;
    let config = json!({
        "created": created.trim(),
        "architecture": release.arch,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/weirgate"],
            "Cmd": ["keep"],
            "Env": ["PATH=/usr/bin", "WEIRGATE_STATE_DIR=/var/lib/weirgate"],
            "Volumes": { "/var/lib/weirgate": {} },
            "Labels": {
                "org.opencontainers.image.title": "weirgate",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        // The layer is not compressed, so its digest is that of its contents.
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob(&layout, &serde_json::to_vec(&config)?, CONFIG)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
    });
    let manifest = blob(&layout, &serde_json::to_vec(&manifest)?, MANIFEST)?;
    let index = index(manifest, &release.version);
    write(
        &layout.join("index.json"),
        &serde_json::to_vec(&index)?,
        0o644,
    )?;
    let version = json!({ "imageLayoutVersion": "1.0.0" });
    write(
        &layout.join("oci-layout"),
        &serde_json::to_vec(&version)?,
        0o644,
    )?;
    let name = format!("{}-{}.oci.tar", release.name, release.machine);
    archive::pack(&layout, ".", &release.folder.join(name), &release.epoch)?;
    Ok(fs::remove_dir_all(&work)?)
}

/// Returns the index, with the name under which the image is loaded. podman takes an annotation as
/// the whole name; containerd and docker prefer their own, which is a complete one.
fn index(mut manifest: Value, version: &str) -> Value {
    let name = format!("weirgate:{version}");
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": name,
        "io.containerd.image.name": format!("docker.io/library/{name}"),
    });
    json!({ "schemaVersion": 2, "manifests": [manifest] })
}

/// Stores bytes under their digest, and returns their descriptor.
fn blob(layout: &Path, bytes: &[u8], kind: &str) -> Result<Value> {
    let folder = layout.join("blobs/sha256");
    let place = folder.join("new");
    write(&place, bytes, 0o644)?;
    let sum = sum(&place)?;
    fs::rename(&place, folder.join(&sum))?;
    Ok(json!({
        "mediaType": kind,
        "digest": format!("sha256:{sum}"),
        "size": bytes.len(),
    }))
}

/// Returns the libraries that a program needs, with the dynamic loader; empty for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    // ldd(1) fails for a static program.
    if !output.status.success() {
        return Ok(Vec::new());
    }
    places(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the libraries in the output of ldd(1); fails if this machine lacks one.
fn places(shown: &str) -> Result<Vec<PathBuf>> {
    let missing = shown.lines().find(|line| line.ends_with("=> not found"));
    ensure!(missing.is_none(), "{}", missing.unwrap_or_default().trim());
    let place = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/')).map(PathBuf::from)
    };
    let mut found: Vec<PathBuf> = shown.lines().filter_map(place).collect();
    found.sort();
    Ok(found)
}

/// Returns the packages whose files are in the image, for the bill of materials.
pub fn foreign(program: &Path) -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for library in libraries(program)? {
        let real = fs::canonicalize(&library)?;
        for place in [&library, &real] {
            let mut ask = Command::new("dpkg-query");
            let Ok(answer) = text(ask.args(["-S"]).arg(place)) else {
                continue;
            };
            packages.extend(answer.split(':').next().map(str::to_owned));
            break;
        }
    }
    packages.sort();
    packages.dedup();
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_the_name_that_the_manifest_of_kubernetes_asks_for() {
        let root = crate::root();
        let version = crate::files::version(&root).unwrap();
        let index = index(json!({}), &version);
        let named = &index["manifests"][0]["annotations"];
        let name = named["org.opencontainers.image.ref.name"].as_str().unwrap();
        let manifest = fs::read_to_string(root.join("packaging/kubernetes/daemonset.yaml"));
        let manifest = manifest.unwrap();
        let image = |line| str::trim(line).strip_prefix("image: ");
        let images: Vec<&str> = manifest.lines().filter_map(image).collect();
        assert_eq!(images, [name; 3]);
        let whole = named["io.containerd.image.name"].as_str().unwrap();
        assert_eq!(whole, format!("docker.io/library/{name}"));
    }

    #[test]
    fn a_library_that_is_not_there_is_told() {
        let there =
            "\tlinux-vdso.so.1 (0x0)\n\tlibz.so.1 => /lib/libz.so.1 (0x0)\n\t/lib64/ld.so (0x0)";
        let found = ["/lib/libz.so.1", "/lib64/ld.so"].map(PathBuf::from);
        assert_eq!(places(there).unwrap(), found);
        let error = places("\tlibelf.so.1 => not found\n").unwrap_err();
        assert_eq!(error.to_string(), "libelf.so.1 => not found");
    }
}
