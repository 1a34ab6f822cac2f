"""Programs that are never run, not even when a user puts them on the whitelist."""

from __future__ import annotations

_GROUPS: dict[str, str] = {
    "destroys data": """
        rm rmdir unlink shred wipe srm dd fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mke2fs mkswap
        fsck badblocks hdparm cryptsetup lvremove vgremove pvremove format diskutil truncate fallocate""",
    "gets the rights of another user": """
        sudo sudoedit su doas pkexec runuser setpriv gosu su-exec newgrp sg runas visudo passwd chpasswd chsh chfn
        useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd capsh setcap login""",
    "handles keys and passwords": """
        ssh-keygen ssh-add ssh-agent openssl gpg gpg2 gpg-agent gpgsm certutil keytool secret-tool security
        pass age age-keygen""",
    "installs software on the system": """
        apt apt-get apt-cache aptitude dpkg yum dnf microdnf rpm zypper pacman yay apk emerge snap flatpak brew port
        nix nix-env nix-shell guix choco winget scoop""",
    "sends and fetches over the network": """
        curl wget aria2c axel ssh scp sftp rsync rsh rlogin rexec telnet ftp tftp lftp nc ncat netcat socat nmap
        sshd sshfs autossh mosh""",
    "leaves or undoes the confinement": """
        chroot mount umount unshare nsenter pivot_root switch_root systemd-run systemd-nspawn machinectl bwrap
        firejail docker podman nerdctl ctr runc crun lxc lxc-attach kubectl qemu-system-x86_64 virsh losetup insmod
        modprobe rmmod kexec sysctl gdb strace ltrace ptrace""",
    "runs things later or for others": """
        at atd batch cron crond crontab anacron systemctl service initctl launchctl schtasks sc rc-service update-rc.d
        chkconfig loginctl tmux screen nohup setsid daemonize start-stop-daemon""",
    "ends processes or the system": """
        kill pkill killall killall5 xkill shutdown reboot halt poweroff init telinit taskkill""",
    "changes who may use a file": "chown chgrp chattr setfacl",
    "changes the machine's network": "ip ifconfig route iptables ip6tables nft ufw firewall-cmd tc brctl nmcli",
    "is every program in one": "busybox toybox",
}

_REASONS: dict[str, str] = {name: why for why, names in _GROUPS.items() for name in names.split()}
_PREFIXES: dict[str, str] = {"mkfs": "destroys data", "fsck.": "destroys data", "qemu-": _REASONS["unshare"]}


def find_blacklisted(name: str) -> str | None:
    """What this program does that it is never run for; None when it is not blacklisted.

    The name is taken as a person or a file system might: without directory, case and a Windows ending.
    """
    bare = name.replace("\\", "/").rsplit("/", 1)[-1].strip().casefold().removesuffix(".exe")
    if bare in _REASONS:
        return _REASONS[bare]
    return next((why for prefix, why in _PREFIXES.items() if bare.startswith(prefix)), None)
