#include "cli/top/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// Switches to the alternate screen, without cursor and line wrapping.
constexpr char kTake[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kGiveBack[] = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
// Brackets output that terminals which know these sequences show all at once.
constexpr char kBeginFrame[] = "\x1b[?2026h\x1b[H";
constexpr char kEndFrame[] = "\x1b[?2026l";
// A terminal that accepts nothing for this long counts as gone.
constexpr int kWriteMillis = 5000;
// Over a network the bytes of one key, beginning with ESC, may arrive this far apart.
constexpr int kKeyMillis = 50;
constexpr char kEscape = '\x1b';
// Signals that end the process, apart from those that people send (cli/rpc/interrupt.h).
constexpr int kEnds[] = {SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS};

// Descriptor to which changes of size are written; -1: none.
std::atomic<int> resized_out{-1};

void OnResize(int) {
  const int error = errno;
  const int out = resized_out.load();
  if (out >= 0) (void)!write(out, "r", 1);
  errno = error;
}

// State for OnEnd; set before it can be called.
struct Taken {
  int in = -1;
  int out = -1;
  termios before = {};
};
Taken taken;

void OnEnd(int signal) {
  (void)!write(taken.out, kGiveBack, sizeof(kGiveBack) - 1);
  tcsetattr(taken.in, TCSANOW, &taken.before);
  raise(signal);  // The signal has its default action again: SA_RESETHAND.
}

void SetHandler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;  // The parent wants it ignored.
  action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Terminal>> Terminal::Open(int in, int out) {
  termios before = {};
  if (tcgetattr(in, &before) != 0 || isatty(out) == 0) {
    return absl::FailedPreconditionError("the input or the output is no terminal");
  }
  int wake[2];
  if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  return std::unique_ptr<Terminal>(new Terminal(in, out, wake[0], wake[1], before));
}

Terminal::Terminal(int in, int out, int wake_in, int wake_out, const termios& before)
    : in_(in), out_(out), wake_in_(wake_in), wake_out_(wake_out), before_(before) {
  resized_out = wake_out_;
  taken = {in_, out_, before_};
  SetHandler(SIGWINCH, OnResize, SA_RESTART);
  for (const int signal : kEnds) SetHandler(signal, OnEnd, static_cast<int>(SA_RESETHAND));
  Take();
}

Terminal::~Terminal() {
  GiveBack();
  SetHandler(SIGWINCH, SIG_DFL, 0);
  for (const int signal : kEnds) SetHandler(signal, SIG_DFL, 0);
  resized_out = -1;
  close(wake_in_);
  close(wake_out_);
}

void Terminal::Take() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  // Ctrl-S would freeze the screen.
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  // Ctrl-Z arrives as a key, so that the terminal is given back before the process stops.
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  tcsetattr(in_, TCSANOW, &raw);
  Write(kTake);
}

void Terminal::GiveBack() {
  Write(kGiveBack);
  tcsetattr(in_, TCSANOW, &before_);
}

Terminal::Size Terminal::size() const {
  winsize reported = {};
  Size size;
  if (ioctl(out_, TIOCGWINSZ, &reported) != 0) return size;
  if (reported.ws_col > 0) size.width = reported.ws_col;
  if (reported.ws_row > 0) size.height = reported.ws_row;
  return size;
}

bool Terminal::Draw(const std::vector<std::string>& lines) {
  // Rows are erased before they are written: after a full line that would erase its end.
  std::string text = kBeginFrame;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool last = i + 1 == lines.size();
    absl::StrAppend(&text, i == 0 ? "" : "\r\n", last ? "\x1b[J" : "\x1b[K", lines[i]);
  }
  absl::StrAppend(&text, kEndFrame);
  return Write(text);
}

bool Terminal::Write(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    pollfd out = {out_, POLLOUT, 0};
    const int ready = poll(&out, 1, kWriteMillis);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t written = write(out_, text.data() + done, text.size() - done);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

Terminal::Input Terminal::Wait(absl::Duration duration) {
  pollfd sources[] = {{in_, POLLIN, 0}, {wake_in_, POLLIN, 0}};
  const int ready = poll(sources, 2, static_cast<int>(absl::ToInt64Milliseconds(duration)));
  Input input;
  if (ready <= 0) return input;
  char buffer[256];
  if (sources[1].revents != 0) {
    while (read(wake_in_, buffer, sizeof(buffer)) > 0) {
    }
  }
  if (sources[0].revents == 0) return input;
  input.gone = !Read(&input.bytes);
  pollfd rest = {in_, POLLIN, 0};
  if (!input.bytes.empty() && input.bytes.back() == kEscape && poll(&rest, 1, kKeyMillis) > 0) {
    input.gone = !Read(&input.bytes);
  }
  return input;
}

bool Terminal::Read(std::string* bytes) {
  char buffer[256];
  const ssize_t got = read(in_, buffer, sizeof(buffer));
  if (got > 0) bytes->append(buffer, static_cast<size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

void Terminal::Wake() { (void)!write(wake_out_, "w", 1); }

void Terminal::Suspend() {
  GiveBack();
  kill(0, SIGTSTP);
  Take();
}

}  // namespace paceline
