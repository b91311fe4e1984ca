// What the disk itself can do: writes memory to a file and makes it durable, or reads a file into
// memory. Prints {"begin", "end"}, nanoseconds of CLOCK_MONOTONIC.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

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

void SleepUntil(uint64_t nanos) {
  const timespec wanted = {static_cast<time_t>(nanos / 1'000'000'000),
                           static_cast<long>(nanos % 1'000'000'000)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wanted, nullptr);
}

struct File {
  std::string path;
  char* memory = nullptr;
  size_t bytes = 0;
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
  InPieces(file.bytes, piece, [&](size_t at, size_t bytes) {
    PACELINE_CHECK(::pread(fd, file.memory + at, bytes, static_cast<off_t>(at)) ==
                   static_cast<ssize_t>(bytes));
  });
  ::close(fd);
}

void ReadMapped(const File& file) {
  const int fd = ::open(file.path.c_str(), O_RDONLY);
  PACELINE_CHECK(fd >= 0) << file.path;
  void* const mapped = ::mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, fd, 0);
  PACELINE_CHECK(mapped != MAP_FAILED);
  std::memcpy(file.memory, mapped, file.bytes);
  ::munmap(mapped, file.bytes);
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
  std::string way;
  uint64_t start = 0;
  CLI::App app("Writes or reads a file.");
  app.add_option("way", way, "write-buffered, write-direct, read-...")->required();
  app.add_option("--file", file.path, "to be written or read")->required();
  app.add_option("--bytes", file.bytes, "a multiple of 4096")->required();
  app.add_option("--start", start, "when to begin: nanoseconds of CLOCK_MONOTONIC");
  CLI11_PARSE(app, argc, argv);
  void* const memory =
      ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PACELINE_CHECK(memory != MAP_FAILED);
  ::madvise(memory, file.bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, file.bytes);
  file.memory = static_cast<char*>(memory);

  PACELINE_CHECK(Now() < start) << "too late";
  SleepUntil(start);
  const uint64_t begin = Now();
  ways.at(way)(file);
  std::cout << nlohmann::json{{"begin", begin}, {"end", Now()}} << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
