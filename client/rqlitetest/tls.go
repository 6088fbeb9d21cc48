package rqlitetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// tlsMode is how the nodes' HTTP is secured.
type tlsMode uint8

const (
	noTLS tlsMode = iota
	serverTLS
	mutualTLS
)

// authority is the certificate authority of a cluster, and what it has signed.
type authority struct {
	mode   tlsMode
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	node   tls.Certificate
	person tls.Certificate
	serial int64
}

// startTLS makes the authority and the certificates, if the cluster wants any.
func (c *Cluster) startTLS() error {
	if c.opts.tls == noTLS {
		return nil
	}
	a := &authority{mode: c.opts.tls, pool: x509.NewCertPool()}
	root := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "rqlitetest CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	var (
		der []byte
		err error
	)
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	if der, err = a.sign(root, root, &a.key.PublicKey, a.key); err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("reading back a certificate: %w", err)
	}
	a.pool.AddCert(a.cert)
	a.node, err = a.issue("rqlite node", x509.ExtKeyUsageServerAuth)
	if err == nil {
		a.person, err = a.issue("rqlite client", x509.ExtKeyUsageClientAuth)
	}
	if err != nil {
		return err
	}
	c.tls = a
	return nil
}

// issue makes a key and a certificate for it.
func (a *authority) issue(name string, usage x509.ExtKeyUsage) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a key: %w", err)
	}
	der, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
		DNSNames:    []string{"*.rqlite.test", "localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// sign signs a certificate, valid in the year 2000 too, where the clock of a
// testing/synctest bubble starts.
func (a *authority) sign(template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	template.NotAfter = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return der, nil
}

// server is the configuration of a node; nil on a nil authority.
func (a *authority) server() *tls.Config {
	if a == nil {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.node}, NextProtos: []string{"h2", "http/1.1"}}
	if a.mode == mutualTLS {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
	}
	return cfg
}

func (a *authority) client() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.pool}
	if a.mode == mutualTLS {
		cfg.Certificates = []tls.Certificate{a.person}
	}
	return cfg
}
