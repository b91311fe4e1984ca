// A disk for SQLite that loses its power: for tests of the state store.
//
// Files are in memory. What was written and not synced stands apart, as it does in the caches of a
// system and a disk. Each write, truncation, sync and removal counts; at the one that was chosen
// the power is cut: from then on every call fails. PowerOn then gives the disk as it may look after
// that: of what was not synced nothing survives, or all, or parts in any order, down to sectors.
//
// What it does not play: bytes that were synced and change (corruption_test.cc does), and sectors
// beside a written one that are damaged (SQLite is told that there are none such, as it is told of
// real disks).
//
// Thread-compatible. One connection to a file at a time.
#ifndef CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_
#define CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline {

class PowerCutVfs {
 public:
  // What survives of that which was not synced.
  enum class Survives { kNothing, kAll, kSomeWrites, kSomeSectors };

  // SQLite's default file system as long as it is there.
  PowerCutVfs();
  ~PowerCutVfs();
  PowerCutVfs(const PowerCutVfs&) = delete;
  PowerCutVfs& operator=(const PowerCutVfs&) = delete;

  // An empty disk.
  void Format();
  // The power is cut at the `call`-th call from here on, 1-based; 0: never.
  void CutAt(int64_t call);
  // The disk as it comes up again. Everything on it counts as synced.
  void PowerOn(Survives survives, uint32_t seed);

  // A planted mistake: syncs do nothing and say that they did, as with PRAGMA synchronous = OFF.
  void IgnoreSyncs(bool ignore) { ignore_syncs_ = ignore; }
  // Bytes of all files; a write beyond finds the disk full. Negative: as many as are wanted.
  void SetCapacity(int64_t bytes) { capacity_ = bytes; }

  int64_t calls() const { return calls_; }
  bool is_cut() const { return cut_; }
  // Null: there is no such file.
  std::string* Contents(const std::string& name);

 private:
  friend struct PowerCutCalls;

  struct Change {
    int64_t offset = 0;
    std::string bytes;
    int64_t truncate_to = -1;  // Not negative: a truncation instead.
  };
  struct File {
    std::string now;
    std::string synced;
    std::vector<Change> changes;  // Of `synced`, which give `now`.
    bool removed = false;
    // One of the same name, removed before this one was made: it comes back if the name was not
    // synced since.
    std::shared_ptr<File> before;
    bool was_there = false;           // In its directory, when that was synced last.
    std::vector<std::string> shared;  // Regions of the log's index.
  };

  // Counts a call; false: the power is off.
  bool Count();
  // Which names there are is durable.
  void SyncDirectory();
  static void Apply(const Change& change, std::string& contents);
  void Survive(File& file, Survives survives, std::mt19937& random);

  sqlite3_vfs vfs_ = {};
  std::map<std::string, std::shared_ptr<File>> files_;
  int64_t calls_ = 0;
  int64_t cut_at_ = 0;
  bool cut_ = false;
  bool ignore_syncs_ = false;
  int64_t capacity_ = -1;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_
