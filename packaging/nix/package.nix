# SPDX-License-Identifier: Apache-2.0 OR MIT
# The router's program: callPackage ./package.nix { src = ../..; }
{ lib, rustPlatform, llvmPackages_19, elfutils, zlib, pkg-config, installShellFiles, src }:

rustPlatform.buildRustPackage {
  pname = "weirgate";
  version = "0.1.0";
  inherit src;
  cargoLock.lockFile = src + "/Cargo.lock";

  # `bintools` has the linker lld, for which the profile `dist` has options.
  nativeBuildInputs = [
    llvmPackages_19.clang-unwrapped
    llvmPackages_19.llvm
    llvmPackages_19.bintools
    pkg-config
    installShellFiles
  ];
  buildInputs = [ elfutils zlib ];
  env.LIBCLANG_PATH = "${lib.getLib llvmPackages_19.libclang}/lib";
  env.RUSTFLAGS = "-C link-arg=-fuse-ld=lld";
  # cargo runs this script, and there is no /usr/bin/env in the sandbox.
  postPatch = ''
    patchShebangs .cargo/rustc
  '';
  # The sources call the compiler for the kernel's programs by Debian's names.
  preBuild = ''
    mkdir -p bin
    ln -s ${llvmPackages_19.clang-unwrapped}/bin/clang bin/clang-19
    ln -s ${llvmPackages_19.llvm}/bin/llvm-strip bin/llvm-strip-19
    export PATH=$PWD/bin:$PATH
  '';

  cargoBuildFlags = [ "-p" "weirgate-cli" ];
  buildType = "dist";
  # The tests need root, network namespaces and virtual machines.
  doCheck = false;

  postInstall = ''
    installManPage docs/reference/man/weirgate*
    installShellCompletion --cmd weirgate \
      --bash <($out/bin/weirgate completions bash) \
      --fish <($out/bin/weirgate completions fish) \
      --zsh <($out/bin/weirgate completions zsh)
  '';

  meta = {
    description = "Keeps the queue of a shared link under control";
    license = with lib.licenses; [ asl20 mit ];
    platforms = lib.platforms.linux;
    mainProgram = "weirgate";
  };
}
