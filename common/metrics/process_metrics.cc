#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace paceline {
namespace {

// Indices of fields in /proc/self/stat after the program's name, 0-based; proc(5) counts from 3.
constexpr size_t kUserTicks = 11;
constexpr size_t kSystemTicks = 12;
constexpr size_t kThreads = 17;
constexpr size_t kStartTicks = 19;
constexpr size_t kVirtualBytes = 20;
constexpr size_t kResidentPages = 21;

std::vector<double> ReadStat() {
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name may contain anything, even ")".
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::vector<double> values = {0};
  for (double value = 0; fields >> value;) values.push_back(value);
  return values;
}

// The machine's start as Unix time; 0: unknown.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    file.ignore(1 << 20, '\n');
  }
  return 0;
}

int OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  // Without the descriptor that reads the directory.
  return static_cast<int>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace

std::vector<MetricFamily> ProcessFamilies() {
  return {
      {"process_cpu_seconds_total", MetricType::kCounter, "seconds", "",
       "Processor time of the process, user and system."},
      {"process_resident_memory_bytes", MetricType::kGauge, "bytes", "",
       "Resident memory of the process."},
      {"process_virtual_memory_bytes", MetricType::kGauge, "bytes", "",
       "Virtual memory of the process."},
      {"process_threads", MetricType::kGauge, "threads", "", "Threads of the process."},
      {"process_open_fds", MetricType::kGauge, "files", "", "Open file descriptors."},
      {"process_max_fds", MetricType::kGauge, "files", "",
       "File descriptors that may be open at a time."},
      {"process_start_time_seconds", MetricType::kGauge, "seconds", "",
       "When the process started, Unix time."},
  };
}

ProcessMetrics::ProcessMetrics(MetricRegistry& registry)
    : cpu_(registry.NewCounters("process_cpu_seconds_total").Add({})),
      resident_(registry.NewGauges("process_resident_memory_bytes").Add({})),
      virtual_(registry.NewGauges("process_virtual_memory_bytes").Add({})),
      threads_(registry.NewGauges("process_threads").Add({})),
      open_files_(registry.NewGauges("process_open_fds").Add({})),
      max_files_(registry.NewGauges("process_max_fds").Add({})),
      start_(registry.NewGauges("process_start_time_seconds").Add({})) {}

void ProcessMetrics::Read() {
  absl::MutexLock lock(&mutex_);
  const std::vector<double> stat = ReadStat();
  if (stat.size() > kResidentPages) {
    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    RaiseTo(cpu_, (stat[kUserTicks] + stat[kSystemTicks]) / ticks);
    threads_.Set(stat[kThreads]);
    virtual_.Set(stat[kVirtualBytes]);
    resident_.Set(stat[kResidentPages] * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    const double boot = BootSeconds();
    if (boot > 0) start_.Set(boot + stat[kStartTicks] / ticks);
  }
  if (const int files = OpenFiles(); files > 0) open_files_.Set(files);
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) max_files_.Set(static_cast<double>(limit.rlim_cur));
}

}  // namespace paceline
