package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/weirproject/weir"
)

// boltSink is a weir.Sink that keeps objects in a bbolt database, by "namespace/name". It survives a
// restart with the resourceVersion that it is current to, and reads as one state at any moment.
//
// A replace is written to a bucket of its own, in transactions of batchRecords, and takes the place of
// the one before when it ends. So neither the list nor its transaction is ever held whole. Changes are
// collected and written with the resourceVersion at each Commit.
type boltSink struct {
	db      *bbolt.DB
	to      uint64   // the generation that Put and Delete write to
	batch   []change // not written yet; at most batchRecords
	replace bool
}

// change is a Put, or a Delete if the object is nil.
type change struct{ key, object []byte }

// batchRecords bounds what is collected before it is written.
const batchRecords = 1000

var (
	meta            = []byte("meta") // a bucket with:
	generation      = []byte("generation")
	resourceVersion = []byte("resourceVersion")
)

// bucketOf returns the name of the bucket with a generation's objects.
func bucketOf(generation uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("objects"), generation)
}

// openBoltSink opens a database, or makes it. The caller calls Close.
func openBoltSink(path string) (*boltSink, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 1}) // fails at once if another process has it
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s := &boltSink{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		m, err := tx.CreateBucketIfNotExists(meta)
		if err != nil {
			return err
		}
		s.to = currentGeneration(m)
		// A process that ended in a replace has left its bucket.
		if err := dropBucket(tx, s.to+1); err != nil {
			return err
		}
		_, err = tx.CreateBucketIfNotExists(bucketOf(s.to))
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return s, nil
}

func (s *boltSink) Close() error { return s.db.Close() }

func currentGeneration(m *bbolt.Bucket) uint64 {
	if g := m.Get(generation); len(g) == 8 {
		return binary.BigEndian.Uint64(g)
	}
	return 0
}

func dropBucket(tx *bbolt.Tx, generation uint64) error {
	if err := tx.DeleteBucket(bucketOf(generation)); err != nil && tx.Bucket(bucketOf(generation)) != nil {
		return err
	}
	return nil
}

// ResourceVersion implements weir.Sink.
func (s *boltSink) ResourceVersion() (rv string, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		rv = string(tx.Bucket(meta).Get(resourceVersion))
		return nil
	})
	return rv, err
}

// Put implements weir.Sink.
func (s *boltSink) Put(r weir.Record) error {
	return s.add(change{key(r), bytes.Clone(r.Raw)})
}

// Delete implements weir.Sink.
func (s *boltSink) Delete(r weir.Record) error { return s.add(change{key(r), nil}) }

func key(r weir.Record) []byte { return []byte(r.Namespace + "/" + r.Name) }

// add collects a change. It writes those of a replace when they are many; others wait for Commit.
func (s *boltSink) add(c change) error {
	if s.batch = append(s.batch, c); s.replace && len(s.batch) == batchRecords {
		return s.db.Update(s.write)
	}
	return nil
}

// write writes what is collected.
func (s *boltSink) write(tx *bbolt.Tx) error {
	objects := tx.Bucket(bucketOf(s.to))
	for _, c := range s.batch {
		var err error
		if c.object == nil {
			err = objects.Delete(c.key)
		} else {
			err = objects.Put(c.key, c.object)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	s.batch = s.batch[:0]
	return nil
}

// Commit implements weir.Sink.
func (s *boltSink) Commit(rv string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if err := s.write(tx); err != nil {
			return err
		}
		return tx.Bucket(meta).Put(resourceVersion, []byte(rv))
	})
}

// BeginReplace implements weir.Sink.
func (s *boltSink) BeginReplace() error {
	s.to, s.replace = s.to+1, true
	return s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucketOf(s.to))
		return err
	})
}

// AbortReplace implements weir.Sink.
func (s *boltSink) AbortReplace() error {
	aborted := s.to
	s.to, s.batch, s.replace = s.to-1, nil, false
	return s.db.Update(func(tx *bbolt.Tx) error { return dropBucket(tx, aborted) })
}

// EndReplace implements weir.Sink. The new generation counts, and the one before goes, in one
// transaction.
func (s *boltSink) EndReplace(rv string) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		if err := s.write(tx); err != nil {
			return err
		}
		m := tx.Bucket(meta)
		return errors.Join(
			m.Put(generation, binary.BigEndian.AppendUint64(nil, s.to)),
			m.Put(resourceVersion, []byte(rv)),
			dropBucket(tx, s.to-1),
		)
	})
	if err == nil {
		s.replace = false
	}
	return err
}

// Each calls f with each object that is held, in the order of their keys, as of one moment. The bytes
// are valid during the call.
func (s *boltSink) Each(f func(key string, object []byte) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		objects := tx.Bucket(bucketOf(currentGeneration(tx.Bucket(meta))))
		return objects.ForEach(func(key, object []byte) error { return f(string(key), object) })
	})
}
