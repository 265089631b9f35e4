# SPDX-License-Identifier: Apache-2.0 OR MIT
# A module for NixOS: the policy stands in the configuration of the system.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.weirgate;
  format = pkgs.formats.toml { };
  policy =
    if cfg.policyFile != null then cfg.policyFile else format.generate "site.toml" cfg.policy;
in
{
  options.services.weirgate = {
    enable = lib.mkEnableOption "weirgate, which keeps the queue of a shared link under control";
    package = lib.mkOption {
      type = lib.types.package;
      description = "The package of weirgate.";
    };
    policy = lib.mkOption {
      type = format.type;
      default = { };
      description = "The policy; weirgate-policy(5) has its fields.";
    };
    policyFile = lib.mkOption {
      type = lib.types.nullOr lib.types.path;
      default = null;
      description = "A file with the policy, in place of `policy`.";
    };
    watch = lib.mkEnableOption "the page and the metrics of weirgate";
    links = lib.mkOption {
      type = lib.types.nullOr lib.types.path;
      default = null;
      description = "A file of links, if the site has several; they are routed over by their health.";
    };
  };

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    # A policy that is wrong is told when the system is built.
    environment.etc."weirgate/site.toml".source = pkgs.runCommand "site.toml" { } ''
      ${cfg.package}/bin/weirgate check ${policy} > /dev/null
      cp ${policy} $out
    '';
    systemd.services.weirgate = {
      description = "Keeps the queue of the shared link under control";
      wantedBy = [ "multi-user.target" ];
      before = [ "network-pre.target" ];
      wants = [ "network-pre.target" ];
      restartTriggers = [ policy ];
      startLimitIntervalSec = 0;
      serviceConfig = {
        Type = "notify";
        # It fails if a device is missing still; `keep` then brings the stored state into force.
        ExecStartPre = "-${cfg.package}/bin/weirgate apply /etc/weirgate/site.toml";
        ExecStart = "${cfg.package}/bin/weirgate keep";
        Restart = "on-failure";
        RestartSec = 2;
        RestartSteps = 6;
        RestartMaxDelaySec = 60;
        WatchdogSec = 90;
        KillMode = "process";
        StateDirectory = "weirgate";
        StateDirectoryMode = "0700";
        RuntimeDirectory = "weirgate";
        # As in packaging/systemd/weirgate.service.
        RuntimeDirectoryMode = "0711";
        RuntimeDirectoryPreserve = true;
        CapabilityBoundingSet = [ "CAP_NET_ADMIN" "CAP_BPF" "CAP_PERFMON" "CAP_SYS_ADMIN" ];
        NoNewPrivileges = true;
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
      };
    };
    environment.etc."weirgate/links.toml" = lib.mkIf (cfg.links != null) { source = cfg.links; };
    systemd.services.weirgate-links = lib.mkIf (cfg.links != null) {
      description = "Routes over several links, by their health";
      wantedBy = [ "multi-user.target" ];
      after = [ "weirgate.service" ];
      restartTriggers = [ cfg.links ];
      startLimitIntervalSec = 0;
      serviceConfig = {
        Type = "notify";
        ExecStart = "${cfg.package}/bin/weirgate links run /etc/weirgate/links.toml";
        Restart = "on-failure";
        RestartSec = 2;
        RestartSteps = 6;
        RestartMaxDelaySec = 60;
        WatchdogSec = 90;
        StateDirectory = "weirgate";
        StateDirectoryMode = "0700";
        RuntimeDirectory = "weirgate";
        # As in packaging/systemd/weirgate-links.service.
        RuntimeDirectoryMode = "0711";
        RuntimeDirectoryPreserve = true;
        CapabilityBoundingSet = [ "CAP_NET_ADMIN" "CAP_NET_RAW" ];
        NoNewPrivileges = true;
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
      };
    };
    systemd.services.weirgate-watch = lib.mkIf cfg.watch {
      description = "Keeps the history of the shared link and shows it";
      wantedBy = [ "multi-user.target" ];
      after = [ "weirgate.service" "network.target" ];
      startLimitIntervalSec = 0;
      serviceConfig = {
        Type = "notify";
        ExecStart = "${cfg.package}/bin/weirgate watch";
        Restart = "on-failure";
        RestartSec = 2;
        WatchdogSec = 180;
        DynamicUser = true;
        StateDirectory = "weirgate-watch";
        KillMode = "mixed";
        # As in packaging/systemd/weirgate-watch.service.
        AmbientCapabilities = [ "CAP_NET_ADMIN" "CAP_BPF" "CAP_PERFMON" "CAP_SETPCAP" ];
        CapabilityBoundingSet = [ "CAP_NET_ADMIN" "CAP_BPF" "CAP_PERFMON" "CAP_SETPCAP" ];
        NoNewPrivileges = true;
      };
    };
  };
}
