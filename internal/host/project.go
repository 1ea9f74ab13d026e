package host

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProjectAnnotation on a host is the vendor's project that its server was listed in. Written by
// macfleet.
const ProjectAnnotation = "infrastructure.cluster.x-k8s.io/project"

// NoteProject records the project of a Host's server, and reports whether that is news.
// Empty: it is not known, and nothing is recorded.
func NoteProject(h *Host, project string) bool {
	if project == "" || h.Annotations[ProjectAnnotation] == project {
		return false
	}
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, ProjectAnnotation, project)
	return true
}

// Elsewhere reports that the host's server is of another project: the lists of this one lack
// it, and the vendor forbids its GET as that of a deleted server. A person who deletes the
// Host gives it up.
func Elsewhere(h *Host, project string) bool {
	recorded := h.Annotations[ProjectAnnotation]
	return project != "" && recorded != "" && recorded != project && h.DeletionTimestamp.IsZero()
}

// OtherProjectError says that the credentials are of another project than Hosts are.
type OtherProjectError struct {
	// Project is the credentials' own.
	Project string
	// Of is the project of the Host that is named, one of so many.
	Of, Host string
	Hosts    int
}

func (e *OtherProjectError) Error() string {
	return fmt.Sprintf("the credentials are of project %s, and Hosts (%d) of another, such as %s of project %s: nothing shows whether their servers are there; "+
		"give the manager a key of their project, or delete these Hosts to give their servers up", e.Project, e.Hosts, e.Host, e.Of)
}
