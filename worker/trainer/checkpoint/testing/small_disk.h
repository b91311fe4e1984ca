// A file system of a few megabytes, for tests of disks that are full or read-only.
#ifndef WORKER_TRAINER_CHECKPOINT_TESTING_SMALL_DISK_H_
#define WORKER_TRAINER_CHECKPOINT_TESTING_SMALL_DISK_H_

#include <string>

namespace paceline {

// In memory; visible to this thread and those that it starts later. Gone with the process.
class SmallDisk {
 public:
  SmallDisk();

  // False where the machine lets this process mount nothing.
  bool is_there() const { return is_there_; }
  const std::string& directory() const { return directory_; }

  void MakeReadOnly();

 private:
  std::string directory_;
  bool is_there_ = false;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TESTING_SMALL_DISK_H_
