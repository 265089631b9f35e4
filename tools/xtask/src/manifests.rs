// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the manifests for Kubernetes against its schemas, with `kubernetes-validate` of PyPI,
//! which has the schemas of every release.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The release whose schemas are used.
const RELEASE: &str = "1.31";

/// The manifests.
const MANIFESTS: [&str; 2] = [
    "packaging/kubernetes/daemonset.yaml",
    "packaging/sweeps/job.yaml",
];

/// Checks every manifest, after a check that a planted mistake in it is found.
pub fn check(root: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for manifest in MANIFESTS {
        let text = fs::read_to_string(root.join(manifest)).context(manifest)?;
        let wrong = text.replacen("containers:", "container:", 1);
        ensure!(wrong != text, "{manifest} has no containers");
        let planted = folder.path().join("planted.yaml");
        fs::write(&planted, wrong)?;
        ensure!(
            !passes(&planted)?,
            "{manifest}: a planted mistake is not found"
        );
        ensure!(
            passes(&root.join(manifest))?,
            "{manifest} is not valid by {RELEASE}"
        );
    }
    Ok(())
}

/// Returns whether a manifest is valid. Mistakes are printed.
fn passes(manifest: &Path) -> Result<bool> {
    let mut validate = Command::new("kubernetes-validate");
    validate.args(["--strict", "-k", RELEASE]).arg(manifest);
    let missing = "kubernetes-validate is missing: pipx install kubernetes-validate";
    Ok(validate.status().context(missing)?.success())
}
