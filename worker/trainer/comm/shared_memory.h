// Memory shared by processes of one node, which can see who still has it.
//
// The memory has no name: one process creates it and gives the others its address. The kernel frees
// it when the last process has released it or ended in any way.
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
    int64_t token = 0;  // Random: tells it from memory with the same numbers on another machine.
  };

  // Creates `bytes` zero bytes, a multiple of 8; only touched pages use memory. Unavailable: the
  // system has none left, or does not allow it.
  static absl::StatusOr<SharedMemory> Make(size_t bytes);
  // Opens the memory of another process, which must still have it, or of this one.
  static absl::StatusOr<SharedMemory> Open(const Address& address, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  Address address() const;
  char* data() const { return data_; }

  // Takes a place (>= 0) until this object ends. Only one object can have a place.
  absl::Status TakePlace(int place);
  // Whether another object has the place.
  bool IsTaken(int place) const;

 private:
  static absl::StatusOr<SharedMemory> Map(int file, size_t bytes);
  int64_t* token() const;  // After the data.
  SharedMemory(int file, char* data, size_t bytes) : file_(file), data_(data), bytes_(bytes) {}

  int file_;
  char* data_;
  size_t bytes_;
};

// Equal for processes that can open each other's memory if their user may; different for most
// others. It combines the machine with the numbering of its processes.
uint64_t NodeKey();

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SHARED_MEMORY_H_
