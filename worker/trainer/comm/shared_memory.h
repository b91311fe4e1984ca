// Memory that processes of one node share, and a look at who of them still has it.
//
// It has no name: one process makes it and tells the others the address. The kernel frees it when
// the last one has let go of it or ended, however it ended.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_COMM_SHARED_MEMORY_H_
#define WORKER_TRAINER_COMM_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

class SharedMemory {
 public:
  struct Address {
    int64_t process = 0;
    int64_t file = 0;
    int64_t token = 0;  // Random: on another machine the same numbers are of something else.
  };

  // `bytes` of zeros, a multiple of 8, of which only those that are touched take up memory.
  // Unavailable: the system has none to give, or does not let this process have it.
  static absl::StatusOr<SharedMemory> Make(size_t bytes);
  // That of another process, which still has it, or of this one.
  static absl::StatusOr<SharedMemory> Open(const Address& address, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  Address address() const;
  char* data() const { return data_; }

  // Takes a place (>= 0), each of which one object has at a time, until its end.
  absl::Status TakePlace(int place);
  // Whether an object other than this one has it.
  bool IsTaken(int place) const;

 private:
  static absl::StatusOr<SharedMemory> Map(int file, size_t bytes);
  int64_t* token() const;  // Behind the data.
  SharedMemory(int file, char* data, size_t bytes) : file_(file), data_(data), bytes_(bytes) {}

  int file_;
  char* data_;
  size_t bytes_;
};

// The same on processes that can open each other's memory if their user may, and different on most
// others: it tells the machine, and the numbers that processes have there.
uint64_t NodeKey();

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SHARED_MEMORY_H_
