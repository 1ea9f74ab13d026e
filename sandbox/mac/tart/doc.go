// Package tart is a stand-in for the tart command of a simulated Mac. It keeps
// tart's contract as far as a node agent or its operator can see it, with real files
// below TART_HOME, real locks, real signals, tart's exit codes, and guests that are
// processes in which commands really run.
//
// # What is real
//
//   - vms/<name>/config.json carries a POSIX write lock for as long as `run`
//     lives, so F_GETLK names the process that runs the VM.
//   - TART_HOME is flocked by clone, rename and the first part of run; temporary
//     directories and registry host directories are flocked as tart does.
//   - A pull that SIGINT ends removes what it has. What any other end leaves is there for
//     the next pull, unless another command but pull and clone comes first: it removes
//     what nobody has flocked.
//   - `run` lives as long as its VM. SIGINT pulls the plug and exits 0, SIGTERM and
//     SIGHUP kill it at once, SIGUSR2 only asks the guest, which a macOS guest
//     ignores. A guest that crashes makes `run` exit 0 all the same.
//   - clone replaces an existing VM without a word, running or not.
//   - Two macOS guests run at a time, over all homes that share a state directory.
//   - A guest boots, takes a DHCP lease, brings its agent up and stays until it shuts
//     itself down (see Guests), crashes, or loses its host process.
//   - control.sock accepts for as long as the guest has power, and what it accepts is
//     closed at once while no guest agent listens.
//
// # What is not modelled
//
// create exits 64 and says so. The arp resolver never finds an address. Space is
// unlimited, so that nothing is pruned by itself. Devices and networks named to run are
// accepted and left alone, except --dir. export makes a directory where tart makes an
// archive. A guest that asks for a reboot is refused.
//
// # Images
//
// There is no network. Unless TART_FAKE_REGISTRY names a catalogue, every
// host/namespace/name:tag exists with a digest made from its name, except that a
// name with "missing" in it is not found (404), one with "private" in it needs
// TART_REGISTRY_USERNAME and TART_REGISTRY_PASSWORD (else 401), and one with
// "linux", "ubuntu" or "debian" in it is a Linux guest. A catalogue is a directory
// holding <host>/<namespace>/<name>/<tag>.json with the fields of [Image]; what is
// not there is not found, and changing a file moves its tag to a new digest.
//
// A disk is a sparse file as long as the disk, or short: an ASIF file, which begins with
// the disk's size. From version 2.36, which stands for what is not released yet, an image
// may be a record with manifest.json and no disk, over layers in cache/content that others
// share; a clone of it has an overlay.asif. What its Mac would need for that is not asked.
//
// A [Plan] can add images and say which credentials which image wants; what push
// uploads is found again where there is a catalogue.
//
// # Guests
//
// A guest is a process of this binary, and pid 1 of its own user, mount and pid
// namespaces, see package guest. vms/<name>/guest is its scratch directory: pid holds
// its process id as the Mac sees it, state is "booting" and then "running", and disk is
// what the guest may write (Users, private, opt, Volumes: a Mac's system volume is
// sealed). Directories shared by --dir are mounts below /Volumes/My Shared Files; one
// with a tag of its own is not mounted. Programs are those of the machine the Mac is
// simulated on. Commands are root, and sudo and shutdown do what a golden's do.
//
// `shutdown -h now` in the guest, a file named shutdown in the scratch directory and
// SIGTERM to the process are the guest shutting down in order; SIGKILL to the process
// is the guest crashing. On anything but Linux guests have no inside and no agent.
//
// # Environment
//
//	TART_HOME            VMs, cache and temporary files; default ~/.tart
//	TART_FAKE_FAULTS     JSON file with a [Plan]: version, timing, faults;
//	                     default /var/db/tart-fake/plan.json, which may be missing
//	TART_FAKE_REGISTRY   image catalogue, see Images
//	TART_FAKE_STATE      licence slots and the DHCP lock, what the kernel would hold;
//	                     default /var/run/tart-fake, gone after a reboot
//	TART_FAKE_LEASES     DHCP lease file; default /var/db/dhcpd_leases
//	TART_FAKE_JOURNAL    JSON lines of every invocation, see [Record];
//	                     default TART_HOME/.journal.jsonl
//
// The package speaks to its users through files, arguments and exit codes only. It
// shares no code with the agent that drives tart: a mistake in one must not be
// repeated by the other.
package tart
