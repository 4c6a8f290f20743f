#include "tests/emulated_driver/fd_message.h"

#include <string.h>
#include <sys/socket.h>

namespace tenure::emulated {
namespace {

constexpr size_t kMostText = 4096;

union Control {
  cmsghdr header;
  char room[CMSG_SPACE(sizeof(int))];
};

}  // namespace

bool Send(int socket, const std::string& text, int fd) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

bool Receive(int socket, Message& message) {
  char text[kMostText];
  iovec part{text, sizeof(text)};
  Control control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = &control;
  header.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  message.text.assign(text, static_cast<size_t>(size));
  message.fd.Reset();
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    message.fd.Reset(fd);
  }
  return true;
}

}  // namespace tenure::emulated
