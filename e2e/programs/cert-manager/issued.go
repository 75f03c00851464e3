package main

import (
	"crypto/x509"
	"encoding/pem"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	cmlisters "github.com/cert-manager/cert-manager/pkg/client/listers/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// issued reads Certificates and Secrets from the caches of cert-manager's controllers.
type issued struct {
	certificates cmlisters.CertificateLister
	secrets      corelisters.SecretNamespaceLister
}

func newIssued(c *controller.Context) issued {
	return issued{c.SharedInformerFactory.Certmanager().V1().Certificates().Lister(), c.KubeSharedInformerFactory.Secrets().Lister().Secrets(namespace)}
}

// certificate has the values of a certificate that do not differ between runs, such as its names.
// It omits keys and times.
type certificate struct {
	DNSNames   []string          `json:"dnsNames"`
	Subject    string            `json:"subject"`
	Issuer     string            `json:"issuer"`
	CA         bool              `json:"ca"`
	Usages     x509.KeyUsage     `json:"usages"`
	Type       corev1.SecretType `json:"type"`
	Labels     map[string]string `json:"labels"`
	Data       []string          `json:"data"`
	Conditions map[string]string `json:"conditions"`
}

// all describes the certificates of all Certificates that are ready, by the Certificate's name. If
// the cache cannot be read, the result is empty.
func (i issued) all() map[string]any {
	all := map[string]any{}
	wanted, err := i.certificates.Certificates(namespace).List(labels.Everything())
	if err != nil {
		return all
	}
	for _, c := range wanted {
		if !apiutil.CertificateHasCondition(c, cmapi.CertificateCondition{Type: cmapi.CertificateConditionReady, Status: cmmeta.ConditionTrue}) {
			continue
		}
		if secret, err := i.secrets.Get(c.Spec.SecretName); err == nil {
			all[c.Name] = describe(c, secret)
		}
	}
	return all
}

func describe(c *cmapi.Certificate, secret *corev1.Secret) any {
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return "no certificate"
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err.Error()
	}
	d := certificate{
		DNSNames: x.DNSNames, Subject: x.Subject.String(), Issuer: x.Issuer.String(), CA: x.IsCA, Usages: x.KeyUsage,
		Type: secret.Type, Labels: secret.Labels, Conditions: map[string]string{},
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, cmmeta.TLSCAKey} {
		if len(secret.Data[key]) > 0 {
			d.Data = append(d.Data, key)
		}
	}
	for _, condition := range c.Status.Conditions {
		d.Conditions[string(condition.Type)] = string(condition.Status) + " " + condition.Reason
	}
	return d
}
