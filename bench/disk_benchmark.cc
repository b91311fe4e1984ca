// Measures the bare disk: writes memory to a file and makes it durable, or reads files into
// memory, one after the other. Prints {"begin", "end"}, nanoseconds of CLOCK_MONOTONIC.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr size_t kSmallPiece = 1 << 20;
constexpr size_t kLargePiece = 4 << 20;

uint64_t Now() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Returns when all ranks have called it.
void Meet(const std::string& prefix, int rank, int ranks) {
  std::ofstream(absl::StrCat(prefix, rank)).close();
  for (int other = 0; other < ranks; ++other) {
    while (::access(absl::StrCat(prefix, other).c_str(), F_OK) != 0) ::usleep(100);
  }
}

struct File {
  std::string path;
  char* memory = nullptr;
  size_t bytes = 0;  // Of the memory; a multiple of 4096. Files are at most as long.
};

void InPieces(size_t bytes, size_t piece, const std::function<void(size_t, size_t)>& each) {
  for (size_t at = 0; at < bytes; at += piece) each(at, std::min(piece, bytes - at));
}

void Write(const File& file, int flags, size_t piece) {
  const int fd = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | flags, 0644);
  PACELINE_CHECK(fd >= 0) << file.path;
  InPieces(file.bytes, piece, [&](size_t at, size_t bytes) {
    PACELINE_CHECK(::pwrite(fd, file.memory + at, bytes, static_cast<off_t>(at)) ==
                   static_cast<ssize_t>(bytes));
  });
  PACELINE_CHECK(::fsync(fd) == 0);
  ::close(fd);
}

void Read(const File& file, int flags, size_t piece) {
  const int fd = ::open(file.path.c_str(), O_RDONLY | flags);
  PACELINE_CHECK(fd >= 0) << file.path;
  size_t at = 0;
  while (at < file.bytes) {
    const ssize_t got =
        ::pread(fd, file.memory + at, std::min(piece, file.bytes - at), static_cast<off_t>(at));
    PACELINE_CHECK(got >= 0) << file.path;
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  ::close(fd);
}

void ReadMapped(const File& file) {
  const int fd = ::open(file.path.c_str(), O_RDONLY);
  PACELINE_CHECK(fd >= 0) << file.path;
  const size_t bytes = std::min(file.bytes, static_cast<size_t>(::lseek(fd, 0, SEEK_END)));
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  PACELINE_CHECK(mapped != MAP_FAILED);
  std::memcpy(file.memory, mapped, bytes);
  ::munmap(mapped, bytes);
  ::close(fd);
}

int Main(int argc, char** argv) {
  const std::map<std::string, std::function<void(const File&)>> ways = {
      {"write-buffered", [](const File& file) { Write(file, 0, kSmallPiece); }},
      {"write-direct", [](const File& file) { Write(file, O_DIRECT, kLargePiece); }},
      {"read-buffered", [](const File& file) { Read(file, 0, kSmallPiece); }},
      {"read-direct", [](const File& file) { Read(file, O_DIRECT, kLargePiece); }},
      {"read-mapped", ReadMapped},
  };
  File file;
  std::vector<std::string> paths;
  std::string way;
  std::string meeting;
  int rank = 0;
  int ranks = 1;
  CLI::App app("Writes or reads a file.");
  app.add_option("way", way, "write-buffered, write-direct, read-...")->required();
  app.add_option("--file", paths, "to be written or read, each of so many bytes")->required();
  app.add_option("--bytes", file.bytes, "a multiple of 4096")->required();
  app.add_option("--meet", meeting, "prefix of the files by which the ranks begin together")
      ->required();
  app.add_option("--rank", rank, "of this process");
  app.add_option("--ranks", ranks, "of all");
  CLI11_PARSE(app, argc, argv);
  void* const memory =
      ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PACELINE_CHECK(memory != MAP_FAILED);
  ::madvise(memory, file.bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, file.bytes);
  file.memory = static_cast<char*>(memory);

  Meet(meeting, rank, ranks);
  const uint64_t begin = Now();
  for (const std::string& path : paths) {
    file.path = path;
    ways.at(way)(file);
  }
  std::cout << nlohmann::json{{"begin", begin}, {"end", Now()}} << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
