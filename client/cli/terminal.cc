#include "client/cli/terminal.h"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <poll.h>
#include <signal.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tenure::cli {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l";
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";

volatile sig_atomic_t told_to_end = 0;

void OnSignal(int) { told_to_end = 1; }
void OnResize(int) {}

void Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

size_t FromEnvironment(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return value > 0 && value < 10'000 ? static_cast<size_t>(value) : otherwise;
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

}  // namespace

ScreenSize TerminalSize() {
  ScreenSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    return {.columns = window.ws_col, .lines = window.ws_row};
  }
  return {.columns = FromEnvironment("COLUMNS", size.columns),
          .lines = FromEnvironment("LINES", size.lines)};
}

FullScreen::FullScreen() {
  tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) Handle(signal, &OnSignal);
  Handle(SIGWINCH, &OnResize);
  Write(kEnter);
}

FullScreen::~FullScreen() {
  Write(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) Handle(signal, SIG_DFL);
}

void FullScreen::Show(const std::string& lines) {
  std::string screen = "\033[H";
  for (const char c : lines) {
    // The rest of each line is what was there before.
    if (c == '\n') screen += "\033[K\r";
    screen += c;
  }
  Write(screen + "\033[J");
}

FullScreen::Wish FullScreen::Wait(std::chrono::nanoseconds patience) {
  if (told_to_end != 0) return Wish::kQuit;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (patience - seconds).count()};
  const int ready = ppoll(&input, 1, &timeout, nullptr);
  if (told_to_end != 0) return Wish::kQuit;
  if (ready < 0) return Wish::kRedraw;
  if (ready == 0) return Wish::kNothing;
  char key = 0;
  if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3 || key == 4) {
    return Wish::kQuit;
  }
  return Wish::kRedraw;
}

}  // namespace tenure::cli
