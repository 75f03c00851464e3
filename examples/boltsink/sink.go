package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/weirproject/weir"
)

// boltSink is a weir.Sink that stores objects in a bbolt database, by "namespace/name". The
// database also contains the resourceVersion of its state, so that Mirror can resume after a
// restart. Readers always see one consistent state.
//
// A replace fills a new bucket (a generation), in transactions of up to batchRecords changes. When
// the replace ends, the new bucket becomes valid instead of the old bucket. So memory never
// contains the whole list. The sink collects the changes outside of a replace, and Commit writes
// them together with the resourceVersion.
type boltSink struct {
	db      *bbolt.DB
	to      uint64   // the number of the bucket that Put and Delete write to
	batch   []change // changes that are not written yet; see batchRecords
	bytes   int      // of the objects in batch
	replace bool
}

// change is a collected Put or Delete.
type change struct {
	key, object []byte
	deleted     bool
}

// During a replace, the sink writes the collected changes when they reach this number or this size
// in bytes. Outside of a replace they need no limit, because Mirror calls Commit after at most 128
// changes.
const (
	batchRecords = 1000
	batchBytes   = 8 << 20
)

var (
	meta            = []byte("meta") // the bucket of the following keys
	generation      = []byte("generation")
	resourceVersion = []byte("resourceVersion")
	holds           = []byte("holds") // describes the contents, such as "pods of https://server"
)

var (
	errOther   = errors.New("the database contains another resource")
	errNotOurs = errors.New("the database was not created by boltsink")
)

// bucketOf returns the name of the bucket with a generation's objects.
func bucketOf(generation uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("objects"), generation)
}

// openBoltSink opens or creates a database. what describes the contents, such as "pods of
// https://server". openBoltSink returns errOther if the database has another description, because
// the stored resourceVersion is then invalid. The caller must call Close.
func openBoltSink(path, what string) (*boltSink, error) {
	// With a timeout, Open fails if another process has opened the database.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 1})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s := &boltSink{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		m, err := tx.CreateBucketIfNotExists(meta)
		if err != nil {
			return err
		}
		if has := string(m.Get(holds)); has != "" && has != what {
			return fmt.Errorf("%w: %s, not %s", errOther, has, what)
		}
		if err := m.Put(holds, []byte(what)); err != nil {
			return err
		}
		s.to = currentGeneration(m)
		// Drop the bucket of a replace that a process has not finished.
		if err := dropBucket(tx, s.to+1); err != nil {
			return err
		}
		if tx.Bucket(bucketOf(s.to)) != nil {
			return nil
		}
		_, err = tx.CreateBucket(bucketOf(s.to))
		return errors.Join(err, m.Delete(resourceVersion)) // the version of an empty bucket is unknown
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
	return s.add(change{key: key(r), object: bytes.Clone(r.Raw)})
}

// Delete implements weir.Sink.
func (s *boltSink) Delete(r weir.Record) error { return s.add(change{key: key(r), deleted: true}) }

func key(r weir.Record) []byte { return []byte(r.Namespace + "/" + r.Name) }

// add collects a change. During a replace it writes the collected changes when they reach a limit;
// otherwise Commit writes them.
func (s *boltSink) add(c change) error {
	s.batch, s.bytes = append(s.batch, c), s.bytes+len(c.object)
	if s.replace && (len(s.batch) == batchRecords || s.bytes >= batchBytes) {
		return s.db.Update(s.write)
	}
	return nil
}

func (s *boltSink) write(tx *bbolt.Tx) error {
	objects := tx.Bucket(bucketOf(s.to))
	for _, c := range s.batch {
		var err error
		if c.deleted {
			err = objects.Delete(c.key)
		} else {
			err = objects.Put(c.key, c.object)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	s.batch, s.bytes = s.batch[:0], 0
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
	s.to, s.batch, s.bytes, s.replace = s.to+1, nil, 0, true
	return s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucketOf(s.to))
		return err
	})
}

// AbortReplace implements weir.Sink. It reads the number of the valid generation from the database,
// because an EndReplace that failed may have taken effect.
func (s *boltSink) AbortReplace() error {
	s.batch, s.bytes, s.replace = nil, 0, false
	return s.db.Update(func(tx *bbolt.Tx) error {
		s.to = currentGeneration(tx.Bucket(meta))
		return dropBucket(tx, s.to+1)
	})
}

// EndReplace implements weir.Sink. One transaction makes the new generation valid and deletes the
// old one.
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

// each calls f with each object of a database, in key order. It returns an error if another process
// has the database open. The bytes are valid only during the call of f.
func each(path string, f func(key string, object []byte) error) error {
	if _, err := os.Stat(path); err != nil {
		return err // bbolt.Open would create the file
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 1})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("open %s: another process has it open", path)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return errors.Join(view(db, f), db.Close())
}

// view calls f with each stored object, in one consistent state.
func view(db *bbolt.DB, f func(key string, object []byte) error) error {
	return db.View(func(tx *bbolt.Tx) error {
		m := tx.Bucket(meta)
		if m == nil {
			return errNotOurs
		}
		objects := tx.Bucket(bucketOf(currentGeneration(m)))
		if objects == nil {
			return errNotOurs
		}
		return objects.ForEach(func(key, object []byte) error { return f(string(key), object) })
	})
}
