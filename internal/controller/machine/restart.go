package machine

import infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"

// wishedRestart names the restart of the agent that is asked for and was not made
// yet, or nothing. The Mac remembers the last one it made, so a push that is
// repeated restarts nothing twice.
func (v *visit) wishedRestart() string {
	wished := v.machine.Annotations[infrav1.RestartAgentAnnotation]
	if wished == v.machine.Status.Applied.Restart || v.leaving() {
		return ""
	}
	return wished
}

// proved is what a push that succeeded has proved; the last restart is remembered
// while none is asked for.
func (v *visit) proved(revision, agent, restart string) infrav1.AppliedStatus {
	if restart == "" {
		restart = v.machine.Status.Applied.Restart
	}
	return infrav1.AppliedStatus{Revision: revision, Agent: agent, Restart: restart, SSHKey: v.machine.Status.Applied.SSHKey}
}
