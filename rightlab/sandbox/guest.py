"""What runs inside: the environment, the files every guest has, and the scripts that start and examine it.

The scripts are bash (Claude Code's own shell tool needs one anyway). They are the only code of ours that
touches the agent's folder by path, and they run inside, where a planted symlink leads nowhere.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "BRIDGE_FAILED",
    "FILES",
    "GUEST_ROOT",
    "PREPARE",
    "RUN",
    "Bridge",
    "env_file",
    "guest_env",
    "guest_path",
    "health_script",
    "init_script",
    "proxy_env",
    "system_files",
]

GUEST_ROOT = "/sandbox"
RUN = "/run/right"
"""Where sockets, tools and the files of a launch are inside."""
FILES = f"{RUN}/files"
"""The files of this launch."""

BRIDGE_FAILED = 97
"""Exit code of a launch whose way to a service could not be opened."""

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Bridge:
    """A loopback port inside that leads to a unix socket outside."""

    name: str
    port: int
    socket: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def guest_path(root: str, tools: str) -> str:
    """``PATH``: the agent's own programs first (spec agent-runtime 1.5), the system, our tools last."""
    return f"{root}/.local/bin:{SYSTEM_PATH}:{tools}"


def guest_env(root: str, tools: str, *, tmpdir: str, user: str, ca_file: str | None) -> dict[str, str]:
    """The variables of every guest process, the proxy's aside (spec agent-runtime 1.5)."""
    env = {
        "HOME": root,
        "PATH": guest_path(root, tools),
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": tmpdir,
        "NPM_CONFIG_PREFIX": f"{root}/.local",
        "NPM_CONFIG_CACHE": f"{root}/.npm",
        "CLAUDE_CONFIG_DIR": f"{root}/.claude",
    }
    if ca_file is not None:
        env["SSL_CERT_FILE"] = ca_file
    return env


def proxy_env(url: str) -> dict[str, str]:
    """Both spellings, since programs disagree; loopback goes direct, there are the services."""
    env = {}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        env[name] = env[name.lower()] = url
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = "127.0.0.1,localhost,::1"
    return env


def env_file(env: Mapping[str, str]) -> str:
    """``.right/env.sh``: what a shell of the agent needs; regenerated at every start.

    The agent's own settings go to ``.right/env.local.sh``, which it sources last.
    """
    lines = [
        "# Written by rightlab at every start. Your own settings: .right/env.local.sh beside this file.",
        f"export PATH={shlex.quote(env['PATH'])}",
    ]
    lines += [
        f"export {name}={shlex.quote(env[name])}"
        for name in ("NPM_CONFIG_PREFIX", "NPM_CONFIG_CACHE", "LANG")
    ]
    lines.append('[ ! -r "$HOME/.right/env.local.sh" ] || . "$HOME/.right/env.local.sh"')
    return "\n".join(lines) + "\n"


def system_files(root: str) -> dict[str, str]:
    """The small files under ``/etc`` that tell nothing of the host."""
    return {
        "/etc/passwd": (
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
            f"agent:x:1000:1000:agent:{root}:/bin/bash\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ),
        "/etc/group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": "".join(
            f"{kind}: files\n" for kind in ("passwd", "group", "hosts", "services", "protocols")
        ),
    }


_INIT_HEAD = r"""
ready=$1 keep=$2 path=$PATH; shift 2
PATH=@SYSTEM@  # not the agent's own socat or sleep
ulimit -c 0
umask 022
give_up() { exit @FAILED@; }
fail() { printf 'rightlab sandbox: %s\n' "$*" >&2; give_up; }
"""

_INIT_BRIDGES = r"""
# The inner bwrap waits for all that is left, and nobody may be there any more to end it. (2: only ever in a
# process namespace of our own.)
give_up() { (( $$ != 2 )) || kill -KILL -1 2>/dev/null; exit @FAILED@; }
logs=/run/bridge
bridge() {
  ( ( eval "exec $ready>&-"
      echo $BASHPID >"$logs/$1.pid"
      exec socat -t 15 "TCP4-LISTEN:$2,bind=127.0.0.1,reuseaddr,fork,nodelay,backlog=128" "UNIX-CONNECT:$3" \
        </dev/null >/dev/null 2>"$logs/$1" ) & )
}
@START@
for (( turn = 0; ; turn++ )); do
  mapfile -t rows </proc/net/tcp
  table=${rows[*]}
  missing=
  for each in @PORTS@; do
    [[ $table == *":${each%%:*} 00000000:0000 0A"* ]] || missing+=" ${each#*:}"
  done
  # The filter comes right after the inner bwrap has tied its life to the outer one's.
  while read -r key value rest; do [[ $key == Seccomp: ]] && break; done </proc/1/status
  [[ -z $missing && $value == 2 ]] && break
  for name in $missing; do
    pid=
    [[ -s $logs/$name.pid ]] && read -r pid <"$logs/$name.pid"
    [[ -s $logs/$name || ( -n $pid && ! -d /proc/$pid ) ]] || continue
    said=$(tail -n 1 "$logs/$name")
    fail "the way to $name did not open: ${said:-socat ended without a word}"
  done
  (( turn < 3000 )) || fail "no way to${missing:- the outer process} within the time"
  sleep 0.002
done
"""

_INIT_TAIL = r"""
if [[ $keep != '*' && -s $HOME/.right/env.local.sh && -r $HOME/.right/env.sh ]]; then
  # A process it left behind may hold the pipe open for ever.
  SECONDS=0
  while (( SECONDS < 8 )) && IFS= read -t 6 -r -d '' pair; do
    name=${pair%%=*} value=${pair#*=}
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    case $name in
      PATH) [[ $value == *"$path"* ]] || value+=":$path"; path=$value; continue ;;
      _|PWD|OLDPWD|SHLVL|BASHOPTS|SHELLOPTS|EUID|UID|PPID|HOME|BASH_ENV|ENV|LD_*|*_PROXY|*_proxy) continue ;;
      ANTHROPIC_*|CLAUDE_*|DISABLE_*|IS_SANDBOX|ready|keep|path|name|value) continue ;;
      *) case " $keep " in *" $name "*) continue ;; esac ;;
    esac
    export "$name=$value"
  done < <(eval "exec $ready>&-"
           PATH=$path /usr/bin/timeout -k 1 5 /bin/bash --noprofile --norc -c \
             '. "$HOME/.right/env.sh" >/dev/null 2>&1 </dev/null; exec /usr/bin/env -0 2>/dev/null')
fi
trap : PIPE
echo ready 2>/dev/null >&"$ready" || give_up
trap - PIPE
eval "exec $ready>&-"
PATH=$path
exec -- "$@"
"""


def init_script(bridges: Sequence[Bridge]) -> str:
    """The first program of every launch: ``init READY_FD KEEP ARGV...``.

    It opens the bridges, waits until each listens (or says in one line why not and exits with
    :data:`BRIDGE_FAILED`), takes over what the agent's own env file sets, tells the host through the
    descriptor READY_FD that it is about to start, and becomes ARGV. The env file runs in a shell of its own
    with a few seconds, so a broken one cannot keep the agent from being started, and it can change neither
    the proxy nor the model's variables nor those the launch itself was given (KEEP: their names; ``*``: pass
    over the file).
    """
    text = _INIT_HEAD
    if bridges:
        start = "\n".join(f"bridge {b.name} {b.port} {shlex.quote(b.socket)}" for b in bridges)
        ports = " ".join(f"{b.port:04X}:{b.name}" for b in bridges)
        text += _INIT_BRIDGES.replace("@START@", start).replace("@PORTS@", ports)
    return (text + _INIT_TAIL).replace("@FAILED@", str(BRIDGE_FAILED)).replace("@SYSTEM@", SYSTEM_PATH)


PREPARE = r"""
PATH=/usr/bin:/bin
cd "$HOME" || exit 1
plain() {
  if [[ -L $1 || ( -e $1 && ! -d $1 ) ]]; then mv -- "$1" "$1.aside.$(date +%s)" || return; fi
  mkdir -p -- "$1"
}
for folder in .local .local/bin .npm .claude .right .right/tmp; do
  plain "$folder" || echo "rightlab sandbox: $folder cannot be made" >&2
done
if [[ -L .right/env.sh || ! -f .right/env.sh || $(<.right/env.sh)$'\n' != "$1" ]]; then
  printf %s "$1" >.right/.env.sh.new && mv -fT -- .right/.env.sh.new .right/env.sh
fi
if [[ ! -e .bashrc && ! -L .bashrc ]]; then
  printf '%s\n' '[ ! -r "$HOME/.right/env.sh" ] || . "$HOME/.right/env.sh"' >.bashrc
fi
exit 0
"""
"""``bash -c PREPARE _ ENV_FILE_TEXT``: the folders and files every agent has, made where they are missing."""


def health_script(*, hidden: Sequence[str], proxy_port: int | None) -> str:
    """Prints ``name<TAB>ok|no<TAB>detail`` for each thing looked at from inside."""
    checks = [
        r"""
PATH=/usr/bin:/bin
say() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }
probe="$HOME/.rightlab-probe.$$"
if ( : >"$probe" ) 2>/dev/null && rm -f -- "$probe"; then say folder ok "$HOME is writable"
else say folder no "$HOME is not writable"; fi
uid= caps= privs= filter=
while read -r key value rest; do
  case $key in
    Uid:) uid=$value ;;
    CapPrm:|CapEff:|CapBnd:|CapInh:|CapAmb:) caps+=$value ;;
    NoNewPrivs:) privs=$value ;;
    Seccomp:) filter=$value ;;
  esac
done </proc/self/status
"""
    ]
    if proxy_port is not None:
        checks.append(
            r"""
[[ $uid == 1000 ]] && say uid ok "uid 1000" || say uid no "uid $uid, not 1000"
[[ $caps =~ ^0+$ ]] && say capabilities ok "no capabilities" || say capabilities no "capabilities $caps"
[[ $privs == 1 ]] && say privileges ok "no new privileges" || say privileges no "new privileges can be gained"
[[ $filter == 2 ]] && say calls ok "system calls are filtered" || say calls no "system calls are not filtered"
if ( : >/usr/.rightlab-probe ) 2>/dev/null; then say system no "/usr is writable"
else say system ok "the system is read-only"; fi
if ( : >/proc/sys/kernel/core_pattern ) 2>/dev/null; then say kernel no "kernel settings are writable"
else say kernel ok "kernel settings are read-only"; fi
devices=
while IFS=: read -r name rest; do
  name=${name// /}; case $name in *'|'*|lo) ;; *) devices+=" $name" ;; esac
done </proc/net/dev
[[ -z $devices ]] && say network ok "no network of its own" || say network no "sees the devices$devices"
"""
        )
        checks.append(
            f"if ( exec 3<>/dev/tcp/127.0.0.1/{proxy_port} && printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3 && "
            "IFS= read -r -t 5 line <&3 && [[ $line == HTTP/1.1* ]] ) 2>/dev/null\n"
            "then say proxy ok 'the proxy answers'; else say proxy no 'the proxy does not answer'; fi"
        )
        for path in hidden:
            quoted = shlex.quote(path)
            checks.append(
                f"if [[ -e {quoted} ]]; then say hidden no {shlex.quote(path + ' of the host is in sight')}\n"
                f"else say hidden ok {shlex.quote(path + ' is out of sight')}; fi"
            )
    return "\n".join(checks) + "\nexit 0\n"
